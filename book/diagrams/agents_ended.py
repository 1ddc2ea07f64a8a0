"""What the batch script does when an agent ends: the page 52_come_back."""

from diagrams.kit import say

SIZE = (33, 39.5)
YES, NO = say("yes", "是"), say("no", "否")


def draw(p):
    """Three questions; the last one asks the checkpoint, too."""
    p.words(1, 1.4, say("An agent has ended.", "一个 agent 结束了。"), align="start", tone="quiet")
    back = say("give its node back,\nor use it again", "交还它的节点，\n或再次使用")
    y = p.question(
        3.4, say("Do other nodes go on?", "还有其他节点在继续？"), (YES, back), onward=NO
    )
    completed = (YES, "COMPLETED", "good")
    y = p.question(y, say("Is the training done?", "训练做完了？"), completed, onward=NO)
    told = say("Told to end,\nor a new checkpoint?", "接到过通知，\n或有新的 checkpoint？")
    again = say("requeue: start again\nfrom the checkpoint", "重新排队，\n从 checkpoint 继续")
    p.question(y, told, (YES, again), (NO, "FAILED", "bad"))
