# SPDX-License-Identifier: Apache-2.0
"""The rules of llama.cpp's /completion and /infill, for answers and for streams (docs/api-llamacpp.md)."""

PIECE = {"index", "content", "tokens", "id_slot", "tokens_predicted", "tokens_evaluated", "stop"}
LAST = PIECE | {"model", "generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word",
                "tokens_cached", "timings"}


def check_one(event, want):
    assert set(event) - {"completion_probabilities"} == want, event
    assert isinstance(event["content"], str) and all(isinstance(t, int) for t in event["tokens"]), event
    assert event["stop"] is (want is LAST), event
    if want is LAST:
        assert event["stop_type"] in ("eos", "limit", "word"), event
        assert (event["stop_type"] == "word") == (event["stopping_word"] != ""), event
        assert event["timings"]["predicted_n"] == event["tokens_predicted"], event


def check_answer(body, request):
    many = isinstance(body, list)
    for i, one in enumerate(body if many else [body]):
        check_one(one, LAST)
        assert one["index"] == i, body


class CompletionStream:
    comments = True

    def __init__(self, request):
        prompt = request.get("prompt")
        self.asks = request.get("return_progress")
        first = prompt[0] if isinstance(prompt, list) and prompt else None
        n_prompt = len(prompt) if isinstance(first, (str, list)) else 1
        self.left = n_prompt * (request.get("n_cmpl") or request.get("n") or 1)

    def take(self, name, event):
        assert name is None and event != "[DONE]", event
        if "error" in event:
            return True
        if "prompt_progress" in event:
            assert event["content"] == "" and not event["stop"] and self.asks, event
            check_one(event, PIECE | {"prompt_progress"})
            return False
        check_one(event, LAST if event["stop"] else PIECE)
        self.left -= event["stop"]
        return self.left == 0
