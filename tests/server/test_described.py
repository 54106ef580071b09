# SPDX-License-Identifier: Apache-2.0
"""The document's short form means what it says, and a small part of tests/server/described.sh: /openapi.json holds for
requests that are made of it."""
import described
import pytest

SCHEMAS = {
    'string? 1..9 /^[^\\u0000]\\.$/ "why"': {
        "type": ["string", "null"], "minLength": 1, "maxLength": 9, "pattern": "^[^\\u0000]\\.$", "description": "why"},
    "int -1..": {"type": "integer", "minimum": -1},
    "number ..3.4e+38": {"type": "number", "maximum": 3.4e38},
    "[bool]? 1..2": {"type": ["array", "null"], "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
    '"a"': {"const": "a"},
    '"a" | null': {"enum": ["a", None]},
    '"a" | "b" | null': {"type": ["string", "null"], "enum": ["a", "b", None]},
    '("a" | "b") | Other "why"': {
        "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"$ref": "#/components/schemas/Other"}], "description": "why"},
    "{ a: 0, b?: any }": {"type": "object", "required": ["a"], "properties": {"a": {"const": 0}, "b": {}}},
    "{ with Shared c: null }": {
        "type": "object", "required": ["c"], "properties": {"s": {"type": "string"}, "c": {"type": "null"}}},
    "{ a?: bool } & (has { a: true } | Other)": {
        "type": "object", "properties": {"a": {"type": "boolean"}}, "allOf": [
            {"anyOf": [{"required": ["a"], "properties": {"a": {"const": True}}}, {"$ref": "#/components/schemas/Other"}]}]},
    "Other & { a: int }": {"allOf": [
        {"$ref": "#/components/schemas/Other"},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}]},
    "map? number keys /^a$/": {
        "type": ["object", "null"], "additionalProperties": {"type": "number"}, "propertyNames": {"pattern": "^a$"}},
    'string not "a" | "b"': {"type": "string", "not": {"type": "string", "enum": ["a", "b"]}},
    "array contains { a: int }": {
        "type": "array", "contains": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}},
    "{ a: int } & odd": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}, "allOf": [{"enum": [1, 3]}]},
    "string date_time": {"type": "string", "format": "date-time"},
}
ROUTES = """
document "openapi": "3.1.0"
components "securitySchemes": {}
header RequestId {}
header Wait {}
reply Bad 400 "Bad."
reply Busy 429 Retry-After=Wait as=Other "Busy."
group some Bad
group all some Busy
group other Bad
errors other Their TheirError
open other
POST /a all a Other -> Thing Event "A."
GET /b other b -> text "B."
fields Shared { s?: string }
rule odd = 1 | 3
Other = object
Error = object
TheirError = object
Thing = object
Event = object
"""


def ref(kind, name):
    return {"$ref": f"#/components/{kind}/{name}"}


@pytest.fixture
def write(tmp_path):
    def put(text):
        path = tmp_path / "api.txt"
        path.write_text(text)
        return path
    return put


@pytest.mark.parametrize("short", SCHEMAS)
def test_schema(write, short):
    assert described.expand(write(f"{ROUTES}\nIt = {short}\n"))["components"]["schemas"]["It"] == SCHEMAS[short]


def test_routes(write):
    doc = described.expand(write(ROUTES))
    a, b = doc["paths"]["/a"]["post"], doc["paths"]["/b"]["get"]
    assert (a["operationId"], a["summary"]) == ("a", "A.") and "security" not in a
    assert a["requestBody"]["content"] == {"application/json": {"schema": ref("schemas", "Other")}}
    assert a["responses"]["200"]["content"] == {"application/json": {"schema": ref("schemas", "Thing")},
                                                "text/event-stream": {"schema": ref("schemas", "Event")}}
    assert a["responses"]["400"] == ref("responses", "Bad") and a["responses"]["429"] == ref("responses", "Busy")
    assert b["security"] == [] and "requestBody" not in b and b["responses"]["400"] == ref("responses", "TheirBad")
    assert b["responses"]["200"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
    replies = doc["components"]["responses"]
    assert replies.keys() == {"Bad", "Busy", "TheirBad"}
    assert replies["Busy"]["headers"].keys() == {"x-request-id", "request-id", "Retry-After"}
    bodies = {name: reply["content"]["application/json"]["schema"] for name, reply in replies.items()}
    assert bodies == {"Bad": ref("schemas", "Error"), "Busy": ref("schemas", "Other"), "TheirBad": ref("schemas", "TheirError")}


@pytest.mark.parametrize("line,why", [
    ("It = Missing", "there is no schema Missing"), ("It = { a }", "expected :"), ("It = { with None }", "no list of fields None"),
    ("It = wrong", "expected a schema"), ("group odd Nowhere\nGET /c odd c -> text \"C.\"", "there is no reply Nowhere"),
])
def test_mistakes(write, line, why):
    with pytest.raises(ValueError, match=why):
        described.expand(write(f"{ROUTES}\n{line}\n"))


def test_document(server):
    assert server.http.get("/openapi.json").json() == described.document()
    status, text = described.run(server.url, examples=4, seed=1, phases="fuzzing")
    assert status == 0, text
