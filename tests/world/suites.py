#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluations and load generators that others wrote, against a server that runs: lm-eval, guidellm and aiperf.

    tests/world/suites.py URL TOKENIZER BIN...

URL is the server's (http://127.0.0.1:8080), TOKENIZER a folder with a tokenizer.json for the load generators, and each
BIN a folder with one or more of the programs, such as VENV/bin. Nothing is fetched: the questions are made here. A
row of the table says how many requests of a program were answered; what it printed goes to standard error when one was
not, and the exit status is 1."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

QUESTIONS = [
    ("The capital of France is", [" Paris", " Berlin", " a cat"], 0),
    ("Two plus two is", [" seven", " four", " blue"], 1),
    ("The sun rises in the", [" west", " soup", " east"], 2),
    ("Water is made of hydrogen and", [" oxygen", " gold", " wood"], 0),
]
TASKS = {
    "choice": ("multiple_choice", "{{q}}", "{{gold}}", 'doc_to_choice: "{{choices}}"\ntarget_delimiter: ""', "acc"),
    "text": ("generate_until", "{{q}}", "{{choices[gold]}}",
             'generation_kwargs: {until: ["\\n"], max_gen_toks: 8, do_sample: false}', "exact_match"),
    "rolling": ("loglikelihood_rolling", "", "{{q}}{{choices[gold]}} and more of it.", "", "bits_per_byte"),
}
LIMIT = 600  # seconds for a program


def find(name, folders):
    return next((str(p / name) for p in folders if (p / name).exists()), None)


def run(command, folder, offline=True):
    env = {**os.environ, **({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"} if offline else {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, env=env,
                          cwd=folder, check=False)
    return done.returncode, done.stdout


def write_tasks(folder):
    (folder / "questions.jsonl").write_text("".join(
        json.dumps({"q": q, "choices": choices, "gold": gold}) + "\n" for q, choices, gold in QUESTIONS))
    for name, (kind, text, target, more, metric) in TASKS.items():
        (folder / f"{name}.yaml").write_text(
            f"task: whimbrel_{name}\ndataset_path: json\ndataset_kwargs:\n  data_files: "
            f"{{test: {folder}/questions.jsonl}}\noutput_type: {kind}\ntest_split: test\ndoc_to_text: \"{text}\"\n"
            f"doc_to_target: \"{target}\"\n{more}\nmetric_list:\n  - metric: {metric}\n")


def lm_eval(program, url, _tokenizer, folder):
    """Every kind of task; of multiple choice the sums of log-probabilities must be those of the right answers."""
    write_tasks(folder)
    for model, route, tasks, more in (
            ("local-completions", "completions", list(TASKS), ["tokenizer_backend=remote"]),
            ("local-chat-completions", "chat/completions", ["text"], [])):
        args = ",".join([f"model=any,base_url={url}/v1/{route},num_concurrent=2", *more])
        code, said = run([program, "run", "--model", model, "--model_args", args, "--include_path", str(folder),
                          "--tasks", ",".join(f"whimbrel_{t}" for t in tasks)]
                         + (["--apply_chat_template"] if "chat" in model else []), folder)
        rows = len(re.findall(r"^\|whimbrel_", said, re.M))
        yield f"{model}: {', '.join(tasks)}", rows, len(tasks), code == 0 and rows == len(tasks), said


def guidellm(program, url, tokenizer, folder):
    for route in "/v1/chat/completions", "/v1/completions":
        out = folder / "guide.json"
        code, said = run([program, "run", "--backend", f"kind=openai_http,target={url},request_format={route}",
                          "--profile", "kind=concurrent,streams=2", "--constraint", "kind=max_requests,count=8",
                          "--data", "kind=synthetic_text,prompt_tokens=40,output_tokens=12", "--tokenizer",
                          f"kind=hf_auto,model={tokenizer}", "--disable-console-interactive", "--output",
                          f"kind=json,path={out}"], folder)
        made = json.loads(out.read_text())["benchmarks"][0]["metrics"]["request_totals"] if out.exists() else {}
        yield route, made.get("successful", 0), made.get("total", 0), code == 0 and made.get("successful") == 8, said


def aiperf(program, url, tokenizer, folder):
    with_model = json.loads(subprocess.run(["curl", "-s", f"{url}/v1/models"], capture_output=True, check=True).stdout)
    for kind in "chat", "completions":
        out = folder / f"aiperf-{kind}"
        code, said = run([program, "profile", "--model", with_model["data"][0]["id"], "--url", url, "--endpoint-type",
                          kind, "--streaming", "--tokenizer", tokenizer, "--synthetic-input-tokens-mean", "60",
                          "--output-tokens-mean", "16", "--request-count", "12", "--concurrency", "3", "--ui", "none",
                          "--artifact-dir", str(out)], folder, offline=False)  # else it opens no folder as a tokenizer
        file = out / "profile_export_aiperf.json"
        made = json.loads(file.read_text()) if file.exists() else {}
        n = int(made.get("request_count", {}).get("avg", 0))
        yield kind, n, 12, code == 0 and n == 12, said


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    url, tokenizer, folders = sys.argv[1].rstrip("/"), os.path.abspath(sys.argv[2]), [pathlib.Path(a) for a in sys.argv[3:]]
    failed = False
    print(f"{'program':<10} {'what':<46} {'answered':>8} {'of':>4}")
    for name, suite in {"lm-eval": lm_eval, "guidellm": guidellm, "aiperf": aiperf}.items():
        program = find(name, folders)
        if program is None:
            print(f"{name:<10} not in {', '.join(map(str, folders))}")
            failed = True
            continue
        with tempfile.TemporaryDirectory() as folder:
            for what, n, of, good, said in suite(os.path.abspath(program), url, tokenizer, pathlib.Path(folder)):
                print(f"{name:<10} {what:<46} {n:>8} {of:>4}{'' if good else '   FAILED'}", flush=True)
                if not good:
                    print(said, file=sys.stderr)
                failed = failed or not good
    sys.exit(failed)


if __name__ == "__main__":
    main()
