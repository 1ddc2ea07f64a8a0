"""Listings whose line breaks were lost: where a statement is complete, the next one begins.

Only whitespace is put back, and comments go. How deep a statement stands cannot be seen any more,
so it is told: a digit for each. In a diff, what is marked as removed goes.
"""

import ast
import re

# how statements of these listings begin; one is complete before it, and not a part of a longer name
BEGINS = re.compile(
    r"(import|from|def|class|for|with|return|del) |if (not|__name__) "
    r"|(print|train|super|download_dataset|partition_dataset)\("
    r"|(?<!\w)f\.write|(self|plt|df_metrics|model|optimizer|fabric|trainer|os|imdb_tokenized)[.\[]"
    r"|(torch\.manual_seed|tokenizer|outputs\[|batch\[s\]|aggreg_metrics\.)"
    r"|(train_acc|val_acc|test_acc)(\.| = )"
    r"|(train|val|test)_(dataset|loader) = |train_loader, val_loader, test_loader = "
    r"|(model|optimizer|outputs|device|df|df_metrics|imdb_dataset|imdb_tokenized|start|end|elapsed"
    r"|logits|predicted_labels|callbacks|logger|trainer|lightning_model|metrics|aggreg_metrics"
    r"|agg_col|agg|agg\[agg_col\]|fabric|model, optimizer) = "
)
MARK = re.compile(r"[-+] +(?=\S)")
COMMENTS = re.compile(
    r"#{20,}[# ]*\d [A-Z][\w ]+?#{20,}|### [A-Z ]*?(?:PROP|PARAMETERS|LOGGING)"
    r"|# save top 1 model|# this is passed to the optimizer for training"
)


def complete(piece: str) -> bool:
    """Whether `piece` is a whole simple statement, and more than a name."""
    try:
        body = ast.parse(piece.strip()).body
    except SyntaxError:
        return False
    if len(body) != 1 or (isinstance(body[0], ast.Return) and body[0].value is None):
        return False
    if piece.rstrip().endswith(","):
        return False
    value = body[0].value if isinstance(body[0], ast.Expr) else None
    return not isinstance(value, (ast.Name, ast.Attribute))


def statements(text: str, diff: bool = False) -> list[str]:
    """The statements of a listing in their order; of a diff, those that stay and those it adds."""
    found, piece, removed = [], "", False
    depth, quote, i = 0, "", 0
    text = COMMENTS.sub("\n", text) + "\n"
    while i < len(text):
        char = text[i]
        fresh = not piece.strip()
        if not quote and not depth:
            mark = MARK.match(text, i) if diff and (fresh or complete(piece)) else None
            if not fresh and (mark or char == "\n" or BEGINS.match(text, i)) and complete(piece):
                found += [] if removed else [piece.strip()]
                piece, removed = "", False
            if mark:
                removed, i = char == "-", mark.end()
                continue
        elif diff and not quote and char == "\n" and text[i + 1] in "+-":
            # a mark between brackets: the line goes, or only its mark
            i = text.index("\n", i + 1) if text[i + 1] == "-" else i + 2
            continue
        piece, i = piece + char, i + 1
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
        if char == ":" and not depth and not quote:  # the head of a block
            found += [] if removed else [piece.strip()]
            piece, removed = "", False
    assert not piece.strip(), piece
    return found


def indented(lines: list[str], levels: str) -> str:
    """The program that `lines` are, if statement n stands as deep as digit n of `levels` says."""
    depths = [int(digit) for digit in levels if digit.isdigit()]
    return "\n".join("    " * d + line for d, line in zip(depths, lines, strict=True)) + "\n"
