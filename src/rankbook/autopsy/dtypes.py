"""Names of dtypes: what the flight recorder writes on the left, what a reader writes beside it."""

NAMES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}


def short_dtype(name: str) -> str:
    """``float32`` for the recorder's ``Float``; a name that is not known stays as it is."""
    return NAMES.get(name, name)
