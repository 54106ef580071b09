# SPDX-License-Identifier: Apache-2.0
"""Random schemas whose keywords speak about one another, and random instances that may fit them: objects whose keys
several patterns match, and arrays with rules about their items; joined in every way that there is."""

PATTERNS = ("^a", "b", "^ab", "c$", "^[ab]", "^[a-z]$")  # nothing that Python and ECMA read in two ways
KEYS = ("a", "b", "ab", "abc", "c", "ba", "d")
VALUES = (0, 1, 2, 3, 1.5, "", "x", "ab", None, True, False, [], {})
SCALARS = ({"type": "integer"}, {"minimum": 2}, {"type": "string"}, False, {"enum": [1, "x"]}, True, {"maxLength": 0},
           {"maximum": 1}, {"const": 1}, {"type": ["null", "boolean"]})
# Of older drafts: a list of schemas is `items` itself there.
OLD = "http://json-schema.org/draft-07/schema#"


def scalar(rng):
    return rng.choice(SCALARS)


def keyed(rng):
    """An object of patterns that match the same keys."""
    s = {"type": "object"} if rng.random() < 0.8 else {}
    if rng.random() < 0.8:
        s["patternProperties"] = {rng.choice(PATTERNS): scalar(rng) for _ in range(rng.randint(1, 3))}
    if rng.random() < 0.6:
        s["properties"] = {rng.choice(KEYS): scalar(rng) for _ in range(rng.randint(1, 2))}
    if rng.random() < 0.5:
        s["additionalProperties"] = rng.choice((True, True, False, scalar(rng)))
    if rng.random() < 0.2:
        s["required"] = [rng.choice(KEYS)]
    if rng.random() < 0.1:
        s["propertyNames"] = rng.choice(({"maxLength": 1}, {"pattern": "a"}, {"enum": ["a", "ab"]}))
    if rng.random() < 0.15:
        s["dependentSchemas"] = {rng.choice(KEYS): {"properties": {rng.choice(KEYS): scalar(rng)}}}
    return s


def listed(rng, old=False):
    """An array with rules about its items."""
    s = {"type": "array"} if rng.random() < 0.8 else {}
    first, rest = ("items", "additionalItems") if old else ("prefixItems", "items")
    if rng.random() < 0.5:
        s[first] = [scalar(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.5:
        s[rest if not old or first in s else "items"] = scalar(rng)
    if rng.random() < 0.4:
        s["contains"] = scalar(rng)
        if not old and rng.random() < 0.6:
            s["minContains"] = rng.randint(0, 2)
        if not old and rng.random() < 0.4:
            s["maxContains"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        s.setdefault("items", {"enum": [0, 1, 2, "x", None]})
        s["uniqueItems"] = True
    if rng.random() < 0.3:
        s["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.3:
        s["maxItems"] = rng.randint(1, 4)
    return s


def joined(rng, make, unevaluated):
    """Schemas that hold together; `unevaluated`: the keyword for what none of them speaks about, or none."""
    one, two = make(rng), make(rng)
    s = make(rng) if rng.random() < 0.5 else {}
    way = rng.randrange(9 if unevaluated else 7)
    if way < 3:
        s[("allOf", "anyOf", "oneOf")[way]] = [one, two]
    elif way == 3:
        s["not"] = one
    elif way == 4:
        s.update({"if": one, rng.choice(("then", "else")): two})
    elif way == 5:
        s["allOf"] = [one, {"not": two}]
    elif way == 6:
        s["allOf"] = [{"anyOf": [one, two]}, {"oneOf": [make(rng), make(rng)]}]
    elif way == 7:
        s.update({"$ref": "#/$defs/a", "$defs": {"a": one}})
    else:
        s.update({"allOf": [{"$ref": "#/$defs/a"}], "anyOf": [{"$ref": "#/$defs/b"}], "$defs": {"a": one, "b": two}})
    if unevaluated and rng.random() < 0.5:
        s[unevaluated] = rng.choice((False, False, scalar(rng)))
    return s


def schema_of_keys(rng):
    return joined(rng, keyed, "unevaluatedProperties")


def schema_of_items(rng):
    if rng.random() < 0.25:
        return {"$schema": OLD, **joined(rng, lambda r: listed(r, old=True), None)}
    return joined(rng, listed, "unevaluatedItems")


def object_instance(rng):
    return {key: rng.choice(VALUES) for key in rng.sample(KEYS, rng.randint(0, 3))}


def array_instance(rng):
    return [rng.choice(VALUES) for _ in range(rng.randint(0, 4))]
