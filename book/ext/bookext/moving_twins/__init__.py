"""What a moving figure computes, in Python: its tests compare the script with these."""
