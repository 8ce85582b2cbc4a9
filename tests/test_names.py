"""Names: one meaning each, and none of the words at which a reader stops."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tipbench

HOUSE = Path(tipbench.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))

COMPLETED_BY_THEIR_MODULE = {
    *("as_json", "as_text", "begin", "cancel", "lines", "main", "markdown", "measure", "plan", "ratio"),
    *("read", "render", "resume", "run", "show", "title_of", "write"),
}
"""Functions that are called by the name of their module: `store.read`, `markdown.render`."""

AVOIDED = re.compile(
    "found|known|seen|said|kept|told|stands|surroundings|hopeless|weighs?|workplace|asked|travel|journey|torn|mended|speaks"
)

NO_VERB_OR_NOUN = re.compile(r"(of|in|on|by|with|to|at|from|against|beside|under)(_.*)?|[a-z]+[^e]ed|shown|written")
"""What no function is called: a preposition and what follows it, or a bare participle."""


def names(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def test_a_public_name_is_of_one_thing() -> None:
    places = defaultdict(set)
    for file in FILES:
        for name in names(ast.parse(file.read_text()).body):
            assert not NO_VERB_OR_NOUN.fullmatch(name), f"{file}: {name}"
            if len(name) > 1 and not name.startswith("_") and name not in COMPLETED_BY_THEIR_MODULE:
                places[name].add(str(file.relative_to(HOUSE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_names_are_plain_words() -> None:
    for file in FILES:
        tree = ast.parse(file.read_text())
        bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
        for name in (name for body in bodies for name in names(body)):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
            assert not [word for word in words if AVOIDED.fullmatch(word)], f"{file}: {name}"
