# SPDX-License-Identifier: Apache-2.0
# The API's description: from the short form in src/server/openapi.txt, which explains itself, to OpenAPI 3.1.
#     awk -f tools/openapi.awk src/server/openapi.txt
# Functions that read a schema give what stands between its braces.

function die(why) {
    print FILENAME ": " why ", near: " token[at - 2] " " token[at - 1] " >" token[at] "< " token[at + 1] > "/dev/stderr"
    failed = 1
    exit 1
}

# --- words -------------------------------------------------------------------------------------------

function read_tokens(rest) {
    while (match(rest, /[^ \t\n]/)) {
        rest = substr(rest, RSTART)
        if (!match(rest, /^("[^"]*"|\/[^\/]*\/|[-+0-9.e]*\.\.[-+0-9.e]*|-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*)/)) {
            match(rest, /^./)
        }
        token[++n_token] = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
    }
}

function take(word) {
    if (token[at] != word) {
        return 0
    }
    at++
    return 1
}

function expect(word) {
    if (!take(word)) {
        die("expected " word)
    }
}

function joined(list, item) {
    return list (list == "" || item == "" ? "" : ",") item
}

function ref(kind, name) {
    if (kind == "schemas") {
        used[name] = 1
    }
    return "\"$ref\":\"#/components/" kind "/" name "\""
}

# --- schemas -----------------------------------------------------------------------------------------

# A union: of literals an enumeration, else any of its members; a text behind it describes it.
function schema(    n, n_literal, n_text, null, values, members, result) {
    do {
        result = all_of()
        n++
        members = joined(members, "{" result "}")
        if (literal != "") {
            n_literal++
            n_text += literal ~ /^"/
            null = null || literal == "null"
            values = joined(values, literal)
        }
    } while (take("|"))
    if (n > 1 && n_literal == n) {
        result = joined(n_text > 1 ? type_of("string", null) : "", "\"enum\":[" values "]")
    } else if (n > 1) {
        result = "\"anyOf\":[" members "]"
    }
    if (token[at] ~ /^"/) {
        result = result ",\"description\":" token[at++]
    }
    literal = n > 1 ? "" : literal
    return result
}

# An object may have rules behind it; anything else is the first of several that hold together.
function all_of(    result, is_object, all) {
    is_object = token[at] == "{"
    result = term()
    while (take("&")) {
        all = joined(all, "{" term() "}")
    }
    if (all == "") {
        return result
    }
    return is_object ? result ",\"allOf\":[" all "]" : "\"allOf\":[{" result "}," all "]"
}

function type_of(name, null) {
    return "\"type\":" (null ? "[\"" name "\",\"null\"]" : "\"" name "\"")
}

function term(    word, name, more, null) {
    word = token[at++]
    literal = ""
    if (word ~ /^"/ || word ~ /^-?[0-9]+$/ || word == "true" || word == "false") {
        literal = word
        return "\"const\":" word
    }
    if (word == "null") {
        literal = word
        return type_of("null")
    }
    if (word == "(") {
        more = schema()
        expect(")")
        literal = ""
        return more
    }
    if (word == "has") {
        expect("{")
        return members_of()
    }
    if (word == "{") {
        name = "object"
        more = members_of()
    } else if (word == "[") {
        name = "array"
        more = "\"items\":{" schema() "}"
        expect("]")
    } else if (word == "map") {
        name = "object"
        null = take("?")
        more = "\"additionalProperties\":{" term() "}"
        if (take("keys")) {
            more = more ",\"propertyNames\":{" limits("string") "}"
        }
    } else if (word == "any") {
        return ""
    } else if (word in rules) {
        return rules[word]
    } else if (word in kinds) {
        name = kinds[word]
    } else if (word ~ /^[A-Z]/) {
        return ref("schemas", word)
    } else {
        die("expected a schema")
    }
    null = take("?") || null
    return joined(type_of(name, null), joined(more, limits(name)))
}

# Not by gsub: programs called awk differ in how they read backslashes there.
function escaped(text,    i, n, part, result) {
    n = split(text, part, "\\")
    result = part[1]
    for (i = 2; i <= n; i++) {
        result = result "\\\\" part[i]
    }
    return result
}

# What may follow a type: a range of its value or length, a pattern, what it is not, what it contains.
function limits(name,    result, word, dots, what) {
    what = name == "string" ? "Length" : name == "array" ? "Items" : "imum"
    for (;;) {
        word = token[at]
        dots = index(word, "..")
        if (word ~ /^\//) {
            result = joined(result, "\"pattern\":\"" escaped(substr(word, 2, length(word) - 2)) "\"")
        } else if (word !~ /^"/ && dots > 0) {
            if (dots > 1) {
                result = joined(result, "\"min" what "\":" substr(word, 1, dots - 1))
            }
            if (dots + 1 < length(word)) {
                result = joined(result, "\"max" what "\":" substr(word, dots + 2))
            }
        } else if (word == "date_time") {
            result = joined(result, "\"format\":\"date-time\"")
        } else if (word == "not" || word == "contains") {
            at++
            result = joined(result, "\"" word "\":{" (word == "not" ? schema() : term()) "}")
            at--
        } else {
            literal = ""
            return result
        }
        at++
    }
}

# The members of an object up to its brace: name: schema, name?: schema, and lists of fields by name.
function members_of(    name, required, result, word) {
    while (!take("}")) {
        name = token[at++]
        if (name == ",") {
            continue
        }
        if (name == "with") {
            word = token[at++]
            if (!(word in fields)) {
                die("there is no list of fields " word)
            }
            result = joined(result, fields[word])
            continue
        }
        if (name !~ /^[a-z]/) {
            die("expected the name of a member")
        }
        if (!take("?")) {
            required = joined(required, "\"" name "\"")
        }
        expect(":")
        result = joined(result, "\"" name "\":{" schema() "}")
    }
    literal = ""
    return joined(required == "" ? "" : "\"required\":[" required "]", "\"properties\":{" result "}")
}

function read_definitions(    word, result) {
    for (at = 1; at <= n_token;) {
        word = token[at++]
        if (word == "fields") {
            word = token[at++]
            expect("{")
            result = members_of()
            sub(/^"properties":\{/, "", result)
            sub(/\}$/, "", result)
            fields[word] = result
        } else if (word == "rule") {
            word = token[at++]
            expect("=")
            rules[word] = schema()
        } else {
            expect("=")
            defined[word] = 1
            schemas = joined(schemas, "\"" word "\":{" schema() "}")
        }
    }
    for (word in used) {
        if (!(word in defined)) {
            die("there is no schema " word)
        }
    }
}

# --- routes ------------------------------------------------------------------------------------------

function quoted(line) {
    match(line, /".*"/)
    return substr(line, RSTART, RLENGTH)
}

function media(type, content) {
    return "\"" type "\":{\"schema\":{" content "}}"
}

function with_headers(more,    list, n, pair) {
    list = "\"x-request-id\":{" ref("headers", "RequestId") "},\"request-id\":{" ref("headers", "RequestId") "}"
    n = split(more, pair, "=")
    return "\"headers\":{" list (n == 2 ? ",\"" pair[1] "\":{" ref("headers", pair[2]) "}" : "") "}"
}

# A reply as a component, made when the first route has it; and the reference to it.
function reply(group, name,    full, error) {
    if (!(name in status)) {
        die("there is no reply " name)
    }
    full = prefix[group] name
    error = name in body ? body[name] : group in errors ? errors[group] : "Error"
    if (!(full in made)) {
        made[full] = 1
        replies = joined(replies, "\"" full "\":{\"description\":" describes[name] "," with_headers(header[name]) \
                         ",\"content\":{" media("application/json", ref("schemas", error)) "}}")
    }
    return "\"" status[name] "\":{" ref("responses", full) "}"
}

function replies_of(group, list,    i, n, word, result) {
    n = split(list, word, " ")
    for (i = 1; i <= n; i++) {
        result = joined(result, word[i] in groups ? replies_of(group, groups[word[i]]) : reply(group, word[i]))
    }
    return result
}

# METHOD PATH GROUP ID [REQUEST] -> ANSWER [EVENT] "summary"
function route(    i, arrow, content, result, n) {
    n = NF
    for (i = 5; i <= NF && $i !~ /^"/; i++) {
        arrow = $i == "->" ? i : arrow
        n = i
    }
    result = "\"operationId\":\"" $4 "\",\"summary\":" quoted($0)
    if (arrow > 5) {
        result = result ",\"requestBody\":{\"required\":true,\"content\":{" \
                 media("application/json", ref("schemas", $5)) "}}"
    }
    if ($(arrow + 1) == "text") {
        content = media("text/plain", type_of("string"))
    } else {
        content = media("application/json", ref("schemas", $(arrow + 1)))
    }
    if (n == arrow + 2) {
        content = content "," media($3 in streams ? streams[$3] : "text/event-stream", ref("schemas", $n))
    }
    result = result ",\"responses\":{\"200\":{\"description\":\"The answer.\"," with_headers() ",\"content\":{" \
             content "}}," replies_of($3, groups[$3]) "}"
    if ($2 ~ /\{id\}/) {
        result = result ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{" \
                 ref("schemas", "Id") "}}]"
    }
    if ($3 in open) {
        result = result ",\"security\":[]"
    }
    result = "\"" tolower($1) "\":{" result "}}"
    if ($2 == last_path) { # another method
        sub(/\}$/, "", paths)
        paths = joined(paths, result)
    } else {
        paths = joined(paths, "\"" $2 "\":{" result)
    }
    last_path = $2
}

# --- lines -------------------------------------------------------------------------------------------

BEGIN {
    split("string string int integer number number bool boolean object object array array", pair, " ")
    for (i = 1; i in pair; i += 2) {
        kinds[pair[i]] = pair[i + 1]
    }
}
/^#/ {
    next
}
# reply NAME STATUS [HEADER=NAME] [as=SCHEMA] "description"
$1 == "reply" {
    status[$2] = $3
    describes[$2] = quoted($0)
    for (i = 4; i <= NF && $i !~ /^"/; i++) {
        if ($i ~ /^as=/) {
            body[$2] = substr($i, 4)
        } else {
            header[$2] = $i
        }
    }
    next
}
$1 == "group" {
    groups[$2] = $0
    sub(/^group +[a-z]+ +/, "", groups[$2])
    next
}
$1 == "open" {
    open[$2] = 1
    next
}
$1 == "stream" {
    streams[$2] = $3
    next
}
$1 == "errors" {
    prefix[$2] = $3
    errors[$2] = $4
    next
}
$1 == "GET" || $1 == "POST" || $1 == "DELETE" {
    route()
    next
}
$1 == "document" || $1 == "components" {
    raw[$1] = joined(raw[$1], substr($0, length($1) + 2))
    next
}
# header NAME JSON
$1 == "header" {
    headers = joined(headers, "\"" $2 "\":" substr($0, index($0, "{")))
    next
}
{
    read_tokens($0)
}
END {
    if (!failed) {
        read_definitions()
        printf "{%s,\"paths\":{%s},\"components\":{%s,\"headers\":{%s},\"responses\":{%s},\"schemas\":{%s}}}\n",
               raw["document"], paths, raw["components"], headers, replies, schemas
    }
}
