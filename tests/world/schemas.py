#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold schemas that others wrote against the compiler of grammars, and print tables.

usage: schemas.py JUDGE maskbench FOLDER [VOCABULARY]   MaskBench's data: schema and instances
       schemas.py JUDGE suite FOLDER                    a draft's folder of JSON-Schema-Test-Suite
       schemas.py JUDGE walks FOLDER [COUNT]            random answers to MaskBench's schemas, against
                                                        the jsonschema package of PyPI
       schemas.py JUDGE random [COUNT [SEED]]           COUNT random schemas (10,000), random instances
                                                        and answers, against the same package

JUDGE is the program schema_judge_test of a build; VOCABULARY a folder with a tokenizer.json.
Instances are written as Python's json.dumps does. Nothing is fetched."""

import collections
import concurrent.futures
import glob
import json
import os
import random
import re
import subprocess
import sys

import made_schemas


class Judge:
    def __init__(self, program, vocabulary="-"):
        self.process = subprocess.Popen([program, vocabulary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode("utf-8", "surrogatepass") + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode("utf-8", "replace").rstrip("\n")

    def schema(self, schema):
        """None, or why the schema is refused; and the microseconds of compiling."""
        answer = self.ask("S" + json.dumps(schema))
        return (None, int(answer[3:])) if answer.startswith("ok ") else (answer[6:], 0)

    def takes(self, instance):
        text = json.dumps(instance, ensure_ascii=False)
        taken, first, slowest, fitting = map(int, self.ask("I" + text).split()[:4])
        left = text.encode("utf-8", "surrogatepass")[fitting:fitting + 40].decode("utf-8", "replace")
        return taken == 1, first, slowest, left


def kind_of(reason):
    """What a reason is about: without places, names and numbers."""
    reason = re.sub(r"^#?[^ ]*?([$\w]+)?:? ", r"\1 ", reason, count=1)
    return re.sub(r"\"[^\"]*\"|\d+", "_", reason)[:90]


def hold(judge, schema, tests):
    """(what came of it, the reason, microseconds until the first mask, of the slowest mask)"""
    reason, compiling = judge.schema(schema)
    if reason is not None:
        return "refused", reason, 0, 0
    wrong, first_mask, slowest = None, 0, 0
    for number, test in enumerate(tests):
        taken, first, most, left = judge.takes(test["data"])
        first_mask, slowest = max(first_mask, first), max(slowest, most)
        if taken and not test["valid"]:
            return "takes an invalid one", f"test {number}", compiling + first_mask, slowest
        if not taken and test["valid"]:
            wrong = wrong or f"test {number} before {left}"
    return "too narrow" if wrong else "passes", wrong or "", compiling + first_mask, slowest


def maskbench_part(program, vocabulary, paths):
    judge = Judge(program, vocabulary)
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
        rows.append((os.path.basename(path), *hold(judge, data["schema"], data["tests"])))
    return rows


def share(numbers, part):
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, int(len(numbers) * part))] if numbers else 0


def maskbench(program, folder, vocabulary="-"):
    paths = sorted(glob.glob(os.path.join(folder, "*.json")))
    parts = [paths[i::2] for i in range(2)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        rows = sum(pool.map(lambda part: maskbench_part(program, vocabulary, part), parts), [])
    for name, outcome, reason, _, _ in sorted(rows):
        if outcome != "passes":
            print(f"{outcome}\t{name}\t{reason}", file=sys.stderr)
    print(f"{len(rows)} schemas")
    for outcome, count in collections.Counter(row[1] for row in rows).most_common():
        print(f"{count:7} {outcome}")
    reasons = collections.Counter(kind_of(row[2]) for row in rows if row[1] == "refused")
    for reason, count in reasons.most_common(40):
        print(f"{count:7} refused: {reason}")
    for what, column in (("until the first mask", 3), ("of the slowest mask", 4)):
        numbers = [row[column] for row in rows if row[1] != "refused"]
        values = ", ".join(f"p{int(100 * p)} {share(numbers, p)}" for p in (0.5, 0.9, 0.99, 1))
        print(f"microseconds of the thread {what}: {values}")
    slowest = sorted(rows, key=lambda row: row[4])[-10:]
    for name, *_, most in reversed(slowest):  # a busy machine charges a thread for some of its own work
        again = [maskbench_part(program, vocabulary, [os.path.join(folder, name)])[0][4] for _ in range(3)]
        print(f"{most:7} its slowest mask: {name}; alone {sorted(again)}")


def suite(program, folder):
    judge = Judge(program)
    total = collections.Counter()
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        counts = collections.Counter()
        with open(path, encoding="utf-8") as f:
            groups = json.load(f)
        for group in groups:
            outcome, reason, _, _ = hold(judge, group["schema"], group["tests"])
            counts[outcome] += 1
            if outcome != "passes":
                print(f"{outcome}\t{os.path.basename(path)}\t{group['description']}\t{reason}", file=sys.stderr)
        print(f"{os.path.basename(path):36}" + "".join(f" {name}: {n}" for name, n in sorted(counts.items())))
        total += counts
    print("in all" + "".join(f" {name}: {n}" for name, n in sorted(total.items())))


def walks(program, folder, count="3"):
    import jsonschema  # only this needs it

    judge = Judge(program)
    total = collections.Counter()
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as f:
            schema = json.load(f)["schema"]
        if judge.schema(schema)[0] is not None:
            total["refused"] += 1
            continue
        validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)
        for seed in range(1, int(count) + 1):
            answer = judge.ask(f"W{seed}")
            try:
                outcome = "valid" if validator.is_valid(json.loads(answer)) else "invalid"
            except Exception as error:  # the package refuses some patterns and references
                outcome = "not ended" if answer == "" else f"not judged: {type(error).__name__}"
            total[outcome] += 1
            if outcome == "invalid":
                print(f"invalid\t{os.path.basename(path)}\t{answer}", file=sys.stderr)
    for outcome, number in total.most_common():
        print(f"{number:7} {outcome}")


def random_part(program, numbers, seed):
    """Counts of outcomes, and what is wrong. Each schema is made of its number, so that any part gives the same."""
    import jsonschema
    judge, total, wrong = Judge(program), collections.Counter(), []
    for number in numbers:
        rng = random.Random(f"{seed}/{number}")
        of_keys = number % 5 < 3
        schema = (made_schemas.schema_of_keys if of_keys else made_schemas.schema_of_items)(rng)
        make = made_schemas.object_instance if of_keys else made_schemas.array_instance
        reason = judge.schema(schema)[0]
        kind = reason and ("no answer fits them" if reason.startswith("no answer") else kind_of(reason).strip())
        total[f"schemas refused: {kind}" if reason else "schemas that compile"] += 1
        if reason is not None:
            continue
        validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)
        for _ in range(75):
            instance = make(rng) if rng.random() < 0.95 else rng.choice(made_schemas.VALUES)
            taken = judge.takes(instance)[0]
            total["instances that are taken" if taken else "instances that are not taken"] += 1
            if taken and not validator.is_valid(instance):
                wrong.append((schema, instance))
        for walk in (1, 2):
            answer = judge.ask(f"W{rng.randrange(1, 10**6)}")
            total["answers that end" if answer else "answers that do not end"] += 1
            if answer and not validator.is_valid(json.loads(answer)):
                wrong.append((schema, answer))
    return total, wrong


def random_schemas(program, count="10000", seed="1"):
    parts = [range(i, int(count), 2) for i in range(2)]
    total, wrong = collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for part in pool.map(random_part, [program] * 2, parts, [seed] * 2):
            total += part[0]
            wrong += part[1]
    for what, number in total.most_common():
        print(f"{number:7} {what}")
    print(f"{len(wrong):7} instances and answers that are taken and not valid")
    for schema, instance in wrong:
        print(f"wrong\t{json.dumps(schema)}\t{json.dumps(instance)}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    modes = {"maskbench": maskbench, "suite": suite, "walks": walks, "random": random_schemas}
    needed = 3 if sys.argv[2:3] == ["random"] else 4
    if len(sys.argv) < needed or sys.argv[2] not in modes:
        sys.exit(__doc__)
    sys.exit(modes[sys.argv[2]](sys.argv[1], *sys.argv[3:]))


if __name__ == "__main__":
    main()
