# SPDX-License-Identifier: Apache-2.0
"""Trains a DFlash draft for a model, from text that the model itself writes.

    python3 tools/train-draft prompts --target MODEL --work DIR FILE.jsonl ...
    python3 tools/train-draft write --target MODEL --work DIR [--minutes M]
    python3 tools/train-draft train --target MODEL --work DIR [--minutes M] [--stop-after S]
    python3 tools/train-draft report --target MODEL --work DIR [--draft FOLDER ...]
    python3 tools/train-draft walk --target MODEL --work DIR --draft FOLDER ... --prompts FILE.jsonl

MODEL is a GGUF file or a Hugging Face folder. Each command goes on where it was stopped.
See docs/training-a-draft.md.
"""
import argparse
import collections
import os
import time

import numpy as np
import torch

import dflash
import report
import target as targets
import texts as store
import training
import walk
import writer

HEAD = 16384    # most frequent tokens that training scores in most steps


def open_target(args):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    return targets.Target(args.target, device, dtype)


def in_work(args, name):
    return os.path.join(args.work, name)


def render(args):
    store.make_prompts(args.target, args.files, in_work(args, "prompts.npz"), args.longest)


def self_made(target, args, head, tail, eos):
    """Questions that the target makes up: it goes on after the template's head of a user's turn."""
    path = in_work(args, "self-made.npz")
    if not os.path.exists(path):
        jobs = [writer.Job(head, "plain", 1.0, str(i), "self-made") for i in range(args.self_made)]
        w = writer.Writer(target, min(args.slots, len(jobs)), len(head) + 128, eos, 127)
        made = [t["tokens"][len(head):] for t in w.write(jobs, 60.0 * args.minutes)]
        made = {tuple(q[:-1]) for q in made if 5 < len(q) < 127 and q[-1] in eos}
        np.savez_compressed(path, **store.flat([head + list(q) + tail for q in sorted(made)]))
    with np.load(path) as f:
        return store.rows_of(f["tokens"], f["ends"])


def jobs_of(prompts, source, rng):
    """Every prompt once without chance, half of them once more in each of the other ways."""
    jobs = []
    for i, (tokens, name) in enumerate(zip(prompts, source)):
        jobs.append(writer.Job(tokens, "greedy", 0.0, f"{i}:greedy", name))
        for kind in ("plain", "cut"):
            if rng.random() < 0.5 or i % store.HELD_OUT == 0:
                temperature = float(rng.choice((0.6, 0.8, 0.9)))
                jobs.append(writer.Job(tokens, kind, temperature, f"{i}:{kind}", name))
    return [jobs[i] for i in rng.permutation(len(jobs))]


def write(args):
    prompts, source, eos, head, tail = store.read_prompts(in_work(args, "prompts.npz"))
    target, begun = open_target(args), time.time()
    if args.self_made:
        more = self_made(target, args, head, tail, eos)
        prompts, source = prompts + more, source + ["self-made"] * len(more)
    done = {t["job"] for t in store.load_texts(args.work)}
    jobs = [j for j in jobs_of(prompts, source, np.random.default_rng(1)) if j.name not in done]
    # What the report needs first: time may be short.
    jobs.sort(key=lambda j: int(j.name.split(":")[0]) % store.HELD_OUT != 0)
    print(f"{len(prompts)} prompts, {len(jobs)} answers to write, {len(done)} written", flush=True)
    if not jobs:
        return
    room = -(-(max(len(p) for p in prompts) + args.answer) // 64) * 64
    slots = max(len(writer.KINDS), min(args.slots, len(jobs)))
    w = writer.Writer(target, slots, room, eos, args.answer)
    batch, kept, tokens = [], time.time(), 0
    for text in w.write(jobs, 60.0 * args.minutes - (time.time() - begun)):
        if len(text["tokens"]) - text["prompt"] < 2:
            continue
        batch.append(text)
        tokens += len(text["tokens"]) - text["prompt"]
        if time.time() - kept > 60:
            store.save_texts(args.work, batch)
            batch, kept = [], time.time()
    if batch:
        store.save_texts(args.work, batch)
    print(f"wrote {tokens} tokens in {time.time() - begun:.0f} s")


def frequent_tokens(texts, vocab, eos):
    """All tokens, the most frequent in answers first."""
    counts = collections.Counter()
    for t in texts:
        counts.update(dict(zip(*np.unique(t["tokens"][t["prompt"]:], return_counts=True))))
    order = sorted(range(vocab), key=lambda i: (i not in eos, -counts[i], i))
    covered = np.cumsum([counts[i] for i in order]) / sum(counts.values())
    print("share of text within the most frequent: " + ", ".join(
        f"{n}: {covered[min(n, vocab) - 1]:.4f}" for n in (2048, 4096, 8192, HEAD)), flush=True)
    return torch.tensor(order)


def new_draft(target, args):
    if args.start_from:
        return dflash.load(args.start_from)[0]
    # The default features of the published drafts, five of them whatever the draft's depth.
    ids = [round(1 + i * (target.depth - 4) / 4) for i in range(5)]
    if args.features:
        ids = [int(i) for i in args.features.split(",")]
    return dflash.Draft(dflash.Config(
        hidden=target.hidden, ffn=target.ffn, heads=target.heads, kv_heads=target.kv_heads,
        head_dim=target.head_dim, layers=args.layers, block=max(training.WIDTHS),
        mask_token=args.mask_token, target_layers=ids, target_depth=target.depth,
        vocab=target.vocab, eps=target.eps, theta=target.theta, max_position=target.context))


def prepared(args):
    texts = store.load_texts(args.work)
    if not texts:
        raise SystemExit(f"{args.work}: no text-*.npz; run the command write first")
    target = open_target(args)
    eos = store.read_prompts(in_work(args, "prompts.npz"))[2]
    apart = [t for t in texts if store.held_out(t)]
    texts = [t for t in texts if not store.held_out(t)]
    print(f"{len(texts)} texts, {sum(len(t['tokens']) for t in texts)} tokens; "
          f"{len(apart)} held out", flush=True)
    return target, texts, apart, frequent_tokens(texts, target.vocab, eos)


def train(args):
    stop_at = time.time() + (args.stop_after or 1e9)
    target, texts, _, frequent = prepared(args)
    torch.manual_seed(1)
    draft = new_draft(target, args).to(target.device)
    trainer = training.Trainer(target, draft, texts, frequent[:HEAD], args.minutes, args.lr,
                               args.batch_tokens)
    checkpoint = in_work(args, "checkpoint.pt")
    if os.path.exists(checkpoint):
        trainer.load(checkpoint)
        print(f"goes on at step {trainer.step}")
    ended = trainer.run(checkpoint, stop_at)
    ids = frequent[:args.head].sort().values if args.head else None
    dflash.save(in_work(args, "draft"), draft, ids)
    print("trained" if ended else "stopped; run the command again to go on")


def tell(args):
    target, _, apart, frequent = prepared(args)
    folders = [in_work(args, "draft"), *args.draft]
    some = np.random.default_rng(1).permutation(len(apart))[:args.texts]
    drafts = {f: dflash.load(f) for f in folders}
    text = report.tell(target, drafts, [apart[i] for i in some], frequent)
    with open(in_work(args, "report.md"), "w", encoding="utf-8") as f:
        f.write(text)
    print(text)


def walk_through(args):
    path = in_work(args, "walk-prompts.npz")
    store.make_prompts(args.target, [args.prompts], path, args.longest)
    prompts, _, eos, _, _ = store.read_prompts(path)
    target = targets.Target(args.target)
    prompts = [p.tolist() for p in prompts[:args.count]]
    walk.walk(target, args.draft, prompts, (4, 6), args.answer, eos)


def main():
    parser = argparse.ArgumentParser(prog="train-draft", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, text):
        p = commands.add_parser(
            name, help=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        p.add_argument("--target", required=True, help="GGUF file or Hugging Face folder")
        p.add_argument("--work", required=True, help="folder for everything that is made")
        p.set_defaults(run=run)
        return p

    p = command("prompts", render, "render and tokenise prompts")
    p.add_argument("--longest", type=int, default=192, help="leave out prompts of more tokens")
    p.add_argument("files", nargs="+", help="JSON lines: strings, or objects with prompt, "
                   "question or instruction")
    p = command("write", write, "have the target write answers")
    p.add_argument("--minutes", type=float, default=5, help="begin no answer after this time")
    p.add_argument("--slots", type=int, default=2048, help="sequences at once")
    p.add_argument("--answer", type=int, default=512, help="longest answer in tokens")
    p.add_argument("--self-made", type=int, default=0, help="questions the target makes up itself")
    p = command("train", train, "train the draft")
    p.add_argument("--minutes", type=float, default=10, help="length of the schedule")
    p.add_argument("--stop-after", type=float, help="stop after so many seconds; go on later")
    p.add_argument("--lr", type=float, default=1e-3, help="highest learning rate")
    p.add_argument("--batch-tokens", type=int, default=32768, help="tokens of a step, with padding")
    p.add_argument("--layers", type=int, default=2, help="layers of a new draft")
    p.add_argument("--mask-token", type=int, default=16, help="a token that text does not use")
    p.add_argument("--features", help="layers whose output is read, by comma; default: five, "
                   "spread evenly")
    p.add_argument("--start-from", help="folder of a draft to go on from")
    p.add_argument("--head", type=int, default=8192, help="tokens the draft may propose; 0: all")
    p = command("report", tell, "tokens per verify on held-out text")
    p.add_argument("--draft", nargs="*", default=[], help="more drafts to compare")
    p.add_argument("--texts", type=int, default=None, help="at most so many held-out texts")
    p = command("walk", walk_through, "decode with drafts as an engine does, F32 on the CPU")
    p.add_argument("--draft", nargs="+", required=True)
    p.add_argument("--prompts", required=True, help="JSON lines, as for the command prompts")
    p.add_argument("--count", type=int, default=20, help="so many prompts")
    p.add_argument("--longest", type=int, default=512)
    p.add_argument("--answer", type=int, default=200, help="longest answer in tokens")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    args.run(args)


if __name__ == "__main__":
    main()
