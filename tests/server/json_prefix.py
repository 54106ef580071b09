# SPDX-License-Identifier: Apache-2.0
"""Is a text, as far as it has come, the beginning of valid JSON? Told piece by piece, each character once."""
import re

NUMBER_SO_FAR = re.compile(r"-?((0|[1-9]\d*)(\.\d*)?((?<=\d)[eE][+-]?\d*)?)?")
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
WORDS = ("true", "false", "null")
BLANK = " \t\r\n"


class JsonPrefix:
    def __init__(self):
        self.good = True
        self.stack = []  # what is open: "{" or "["
        self.want = "value"  # or first_key, key, colon, first_value, more, end; string, escape, hex, number, word
        self.scrap = ""  # of a number, a word or \u
        self.in_key = False

    def feed(self, text):
        for c in text:
            if self.good:
                self.good = self._take(c)
        return self.good

    @property
    def complete(self):
        whole_number = self.want == "number" and not self.stack and NUMBER.fullmatch(self.scrap)
        return self.good and bool(self.want == "end" or whole_number)

    def _after_value(self):
        self.want = "more" if self.stack else "end"
        return True

    def _take(self, c):
        if self.want in ("string", "escape", "hex"):
            return self._in_string(c)
        if self.want == "number":
            if NUMBER_SO_FAR.fullmatch(self.scrap + c):
                self.scrap += c
                return True
            if not NUMBER.fullmatch(self.scrap):
                return False
            self._after_value()
        if self.want == "word":
            self.scrap += c
            if self.scrap in WORDS:
                return self._after_value()
            return any(w.startswith(self.scrap) for w in WORDS)
        return c in BLANK or self._between(c)

    def _in_string(self, c):
        if self.want == "escape":
            self.want, self.scrap = ("hex" if c == "u" else "string"), ""
            return c in '"\\/bfnrtu'
        if self.want == "hex":
            self.scrap += c
            self.want = "string" if len(self.scrap) == 4 else "hex"
            return c in "0123456789abcdefABCDEF"
        if c == "\\":
            self.want = "escape"
        elif c == '"' and self.in_key:
            self.want = "colon"
        elif c == '"':
            self._after_value()
        return c >= " "

    def _between(self, c):
        if self.want in ("value", "first_value"):
            if c == "]" and self.want == "first_value":
                self.stack.pop()
                return self._after_value()
            return self._begin_value(c)
        if self.want in ("key", "first_key"):
            if c == "}" and self.want == "first_key":
                self.stack.pop()
                return self._after_value()
            self.want, self.in_key = "string", True
            return c == '"'
        if self.want == "colon":
            self.want = "value"
            return c == ":"
        if self.want == "more":
            if c == ",":
                self.want = "key" if self.stack[-1] == "{" else "value"
                return True
            closes = c == ("}" if self.stack[-1] == "{" else "]")
            self.stack.pop()
            self._after_value()
            return closes
        return False

    def _begin_value(self, c):
        self.scrap, self.in_key = c, False
        if c in "{[":
            self.stack.append(c)
            self.want = "first_key" if c == "{" else "first_value"
        elif c == '"':
            self.want = "string"
        elif c in "-0123456789":
            self.want = "number"
        elif c in "tfn":
            self.want = "word"
        else:
            return False
        return True
