# SPDX-License-Identifier: Apache-2.0
"""Small templates that cover every feature of the interpreter, one or a few at a time. Jinja2 says what they
give. VARS is what all of them can see."""

VARS = {
    "s": "Hello wörld", "empty": "", "n": 7, "neg": -3, "x": 2.5, "t": True, "f": False, "nul": None,
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig"], "d": {"b": 1, "a": {"c": [10, 20]}, "items": 5},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
               {"name": "Cy", "age": 30}],
    "multi": "one\ntwo\n\nthree\n", "uni": "日本語 ñandú 🙂 end", "html": "<a href=\"x\">'&'</a>",
    "mixed": [1, "1", 1.0, True, None, [1], {"k": "v"}], "ctrl": "a\u0001b\u007fc\td\"e\\f/g",
    "nest": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
    "tool": {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "number", "default": 1e-05},
                                         "b": {"enum": ["é", "<x>", 1.0, 1e22, True, None]}}}}},
}

EXPRESSIONS = r"""
1|1.0|1.5e3|1e16|1e15|123456789.125|0.1|1e-5|0.0001|1e100|100000000000000000000.0|-0.0|0x1F|0b101|0o17|1_000|1_0.5_0
true|True|false|False|none|None|undefined_thing|'a' 'b' "c"|'\n\t\\\'\"\x41\u00e9\101\q'|"it's"|'say "x"'|'é日🙂'
n + 1|n - 10|n * 3|n / 2|n // 2|n % 4|neg // 2|neg % 4|neg % -4|7 // -2|2 ** 10|2 ** -1|2 ** 3 ** 2|-2 ** 2|-n|+n|- -n
x + 1|x * 2|x // 1|x % 1|-x % 1|1 / 0|1 // 0|1 % 0|1.0 / 0|t + 1|t + t|n + none|n + 's'|'s' + n|s + '!'|s * 2|2 * s|s * 0|s * -1
l + [4]|l * 2|(1, 2) + (3,)|[1] + (2,)|'%s' % 1|1 ~ 2|1 ~ 'a' ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ undefined_thing|1 + 2 ~ 3
'a' ~ 1 + 2|'1' + 2 ~ 3|3 * 2 ~ 1|n == 7|n == 7.0|n != 8|n > 3|n >= 7|n < 3|n <= 7|1 < 2 < 3|1 < 3 < 2|3 > 2 > 1 == 1|'a' < 'b'|[1, 2] < [1, 3]|(1, 2) < (1, 2, 0)
n < 's'|none < 1|undefined_thing < 1|none == none|undefined_thing == undefined_thing|undefined_thing == none|1 == true|'1' == 1|[1, 2] == [1, 2]|[1, 2] == (1, 2)|{'a': 1} == {'a': 1.0}
1 in l|9 in l|9 not in l|'ell' in s|'' in s|1 in s|'b' in d|'zz' in d|1 in undefined_thing|1 in n|not 1 in l|not t|not not t|not n == 7|not n is defined
t and f|t or f|f or 'x'|t and 'y'|'' or none or 0|f and undefined_thing.x|t or undefined_thing.x|n and s and l|f or f and t|not f and f|(not f) and t
'a' if t else 'b'|'a' if f else 'b'|'a' if f|('a' if f) is defined|'x' if f else 'y' if f else 'z'|1 if t else 2 + 3|[1 if t else 2]
[]|[1, 2, 3]|[1, 2, ]|(1,)|()|(1, 2)|1, 2|{}|{'a': 1, 'b': [2, {'c': none}]}|{1: 2, 'x': 3.0, }|{'a': 1, 'a': 2}|['a', "b'c", 'd"e', 'f\'"g', 'h\n', '\x00\x7f\u00a0\u200b', 'é🙂']|[true, none, 1.5, undefined_thing]
s[0]|s[-1]|s[99]|uni[1]|uni[-1]|uni[2:6]|uni[::-1]|uni[::2]|s[1:3]|s[:-2]|s[-3:]|s[:]|s[::-2]|s[5:2]|s[100:]|l[0]|l[-1]|l[3]|l[1:]|l[:1]|l[::-1]|l[::2]|l[-2:]|l[10:]|l[:n]|l[2:0:-1]|l[0:3:0]|l['x']
(1, 2, 3)[1:]|range(10)[3]|range(10)[2:5]|range(3)|range(1, 4)|range(5, 0, -2)|range(0)|range(5)|list|range(1, 10, 3)|list|range(3, 1)|list|range(200000)|range(0, 1, 0)|range('a')
d.b|d['b']|d.a.c[1]|d['a']['c'][0]|d.zz|d.zz.y|d['zz']|d['zz']['y']|d.items|d['items']|d.items()|d.keys()|d.values()|d.keys()|list|d[1]|d[:1]|none.x|none['x']|n.x|s.x|people[0].name|people.0.name|people[0]['tags'][0]|nul.x is defined
d.get('b')|d.get('zz')|d.get('zz', 5)|d.get()|{'a': none}.get('a', 1)|dict(a=1, b=2)|dict({'a': 1}, b=2)|dict([('x', 1)])|dict()|namespace(a=1).a|namespace({'q': 3}).q|namespace(a=1).b is defined
s.upper()|s.lower()|s.title()|s.capitalize()|s.swapcase()|uni.upper()|'straße'.upper()|"they're bill's".title()|s.split()|s.split('o')|s.split('o', 1)|s.split(maxsplit=1)|'  a  b '.split()|'  a  b '.split(' ')|'a,b,c'.rsplit(',', 1)|' a b  c '.rsplit(none, 1)|s.split('')|multi.splitlines()|multi.splitlines(true)|'a\r\nb\rc'.splitlines()
'  x '.strip()|'xxaxx'.strip('x')|'xyaxy'.lstrip('yx')|'xyaxy'.rstrip('yx')|'\u3000a\u2003'.strip()|'\n\na\n'.strip('\n')|'éaé'.strip('é')|s.startswith('Hell')|s.startswith('x')|s.startswith(('x', 'H'))|s.endswith('ld')|s.endswith(('a', 'b'))|s.startswith('e', 1)|s.startswith('')|s.startswith(1)|s.startswith()
s.replace('l', 'L')|s.replace('l', 'L', 1)|s.replace('', '-')|s.replace('zz', 'y')|'aaa'.replace('aa', 'b')|s.replace('l')|'abc'.find('c')|'abc'.find('z')|'日本日'.rfind('日')|'abcabc'.find('a', 1)|'abc'.index('b')|'abc'.index('z')|'banana'.count('an')|'aaa'.count('')|'abc'.count('z')
'-'.join(['a', 'b'])|'-'.join([1])|'-'.join('abc')|'a-b-c'.partition('-')|'abc'.partition('-')|'a-b-c'.rpartition('-')|'abc'.rpartition('-')|'abc'.removeprefix('ab')|'abc'.removesuffix('bc')|'abc'.removeprefix('x')|'12'.isdigit()|'1a'.isdigit()|''.isdigit()|'ab'.isalpha()|'a1'.isalnum()|' \n'.isspace()|'AB1'.isupper()|'ab'.islower()|'1'.islower()
'7'.zfill(3)|'-7'.zfill(4)|'a'.ljust(3)~'|'|'a'.rjust(3, '*')|'a'.center(4, '-')|'ab'.center(5, '-')|'a'.center(4)~'|'
'{} {}'.format(1, 'a')|'{0}{1}{0}'.format('x', 'y')|'{a}-{b}'.format(a=1, b=none)|'{{}}'.format()|'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')|'{:.2f} {:5.1f} {:05d} {:+d} {:x} {:,}'.format(3.14159, 2.5, 42, 7, 255, 1234567)|'{!r} {!s}'.format('a', 'b')|'{0.x}{1[k]}'.format(d, {'k': 'v'})|'{}'.format()|'{z}'.format(a=1)|'{'.format()|'{:d}'.format('a')|'{:*^9}'.format('mid')|'{}'.format(1.0)|'{:8}|'.format(1.5)|'{:g}'.format(0.1)
'%s and %s' % ('a', 1)|'%d%%' % 50|'%05.1f|%-4s|%4s|%+d' % (3.14159, 'ab', 'cd', 5)|'%x %X %o' % (255, 255, 8)|'%r' % 'a'|'%(k)s=%(v)d' % {'k': 'a', 'v': 2}|'%s' % none|'%s' % [1]|'%s %s' % 'a'|'%s' % (1, 2)|'%d' % 'a'|'%d' % 3.7|'%e %g' % (12345.678, 0.0001)|'%.2s' % 'abc'|'%q' % 1|'%s' % undefined_thing|'abc' % 1|'%s' % {'a': 1}|'%c' % 'x'
s|length|l|length|d|length|uni|length|undefined_thing|length|n|length|none|length|''|length|l|count|'%s,%s'|format(1, 'b')|'%(a)s'|format(a=1)
s|upper|s|lower|s|title|s|capitalize|'foo-bar (baz) [qux] it\'s'|title|n|upper|none|lower|'  a '|trim|'xax'|trim('x')|n|trim|undefined_thing|trim|none|string|t|string|1.0|string|[1]|string|s|safe|html|e|html|escape|n|e
s|replace('l', 'L')|s|replace('l', 'L', 1)|n|replace('7', '8')|s|replace('o', 0)|s|first|s|last|l|first|l|last|[]|first|[]|last|d|first|d|last|''|first|l|min|l|max|words|min|words|max|words|max(case_sensitive=true)|people|max(attribute='age')|[]|min|[1, 'a']|min
l|sum|people|sum(attribute='age')|l|sum(start=10)|[]|sum|['a']|sum|people|map(attribute='name')|list|people|map(attribute='zz')|list|people|map(attribute='zz', default='-')|list|people|map(attribute='tags.0', default='?')|list|words|map('upper')|list|words|map('replace', 'p', 'P')|list|words|map('length')|sum|words|map('nofilter')|list|words|map|list|undefined_thing|map('upper')|list
words|join|words|join(', ')|l|join('-')|mixed|join('|')|people|join(', ', attribute='name')|''|join('x')|'abc'|join('-')|n|join|undefined_thing|join(',')|words|join(d='+')|[none, true]|join(1)
l|sort|l|sort(reverse=true)|words|sort|words|sort(case_sensitive=true)|people|sort(attribute='name')|map(attribute='name')|join|people|sort(attribute='age,name')|map(attribute='name')|join|people|sort(attribute='age', reverse=true)|map(attribute='name')|join|mixed|sort|d|sort|['b', 'A', 'a', 'B']|sort
['a', 'A', 'b', 'a']|unique|list|['a', 'A', 'b', 'a']|unique(case_sensitive=true)|list|people|unique(attribute='age')|map(attribute='name')|list|d|dictsort|{'b': 1, 'A': 2, 'c': 0}|dictsort|{'b': 1, 'A': 2, 'c': 0}|dictsort(true)|{'b': 1, 'A': 2, 'c': 0}|dictsort(by='value')|{'b': 1, 'A': 2}|dictsort(reverse=true)|{'b': 1}|dictsort(by='x')
none|selectattr('a')|list|none|map(attribute='a')|list|none|select|list|none|reject('odd')|list|0|map('upper')|list
people|selectattr('tags')|map(attribute='name')|list|people|selectattr('age', 'equalto', 30)|list|length|people|selectattr('age', '>', 26)|map(attribute='name')|list|people|rejectattr('tags')|map(attribute='name')|list|people|rejectattr('age', 'eq', 30)|map(attribute='name')|list|people|selectattr('tags', 'defined')|list|length|people|selectattr()|list|l|select('odd')|list|l|reject('odd')|list|mixed|select|list|mixed|reject|list|words|reject('equalto', 'fig')|list|words|select('in', ['fig', 'x'])|list|l|select('nope')|list|mixed|select('string')|list
d|items|list|{}|items|list|undefined_thing|items|list|l|items|list|l|list|s|list|d|list|'ab'|list|undefined_thing|list|n|list|l|reverse|list|s|reverse|(1, 2)|list|range(3)|reverse|list|none|list
undefined_thing|default('x')|undefined_thing|default|d.zz|default('y')|''|default('z')|''|default('z', true)|none|default('q')|none|default('q', true)|0|default(1, boolean=true)|n|default(0)|undefined_thing|d('s')|undefined_thing|default(default_value='k')|undefined_thing.x|default('y')
'42'|int|'4.7'|int|'x'|int|'x'|int(5)|'ff'|int(0, 16)|'0x1f'|int(0, 16)|' 12 '|int|'-3'|int|3.9|int|-3.9|int|none|int|t|int|[]|int(default=9)|'1_000'|int|'42'|float|'x'|float|'x'|float(1.5)|3|float|'1e3'|float|none|float|-5|abs|neg|abs|(-2.5)|abs|'a'|abs|undefined_thing|int
2.5|round|3.5|round|2.675|round(2)|1234.5|round(-2)|7|round|2.1|round(method='ceil')|2.9|round(0, 'floor')|2.345|round(1, 'ceil')|2.5|round(method='x')|2.4|round|int|x|round|string
multi|indent|multi|indent(2)|multi|indent(2, true)|multi|indent(2, first=true, blank=true)|multi|indent('> ')|'a'|indent|''|indent(first=true)|multi|indent(width=1)|n|indent|'a b c d e f g h'|truncate(9)|'a b c d e f g h'|truncate(9, true)|'a b c d e f g h'|truncate(9, false, '..', 0)|'short'|truncate(3)|'hello world again'|truncate(8, leeway=0)|'ab cd, ef'|wordcount|'x'|center(5)~'|'|s|attr('upper')|d|attr('b')
[1, 2, 3, 4, 5]|batch(2)|list|[1, 2, 3]|batch(2, 'x')|list|people|groupby('age')|map('first')|list|people|groupby('age')|map('last')|map('length')|list
[1, 2, 3, 4, 5]|slice(3)|list|[1, 2, 3, 4, 5]|slice(3, 'x')|list|[]|slice(2)|list|'abcd'|slice(2)|list|l|slice(0)|list|l|slice(-1)|list|l|slice
s|urlencode|uni|urlencode|'a/b c?d=e&f~g_h.i-j'|urlencode|{'a b': 'c/d', 'é': 1}|urlencode|[('x', 'y z'), ('q', none)]|urlencode|n|urlencode|none|urlencode|l|urlencode|''|urlencode|{}|urlencode
html|striptags|'<p>a  b</p>\n<!-- <i> -->c<br/>d'|striptags|'a < b'|striptags|'x<!-- y'|striptags|'&lt;b&gt; &amp;amp; &#65;&#x42; &quot;q&quot; &apos; &amp'|striptags|n|striptags|'<a>'|striptags|'&nosuchname; &'|striptags
multi|wordwrap|multi|wordwrap(3)|'the well-known so-called half--dash words'|wordwrap(9)|'the well-known so-called half--dash words'|wordwrap(6, false)|'the well-known so-called'|wordwrap(7, break_on_hyphens=false)|'a-b-cd extraordinarily-long'|wordwrap(5)
'a  b   c'|wordwrap(3)|'  lead and   gaps   '|wordwrap(6)|'日本語 ñandú-über 🙂 end'|wordwrap(4)|'abcdefghij'|wordwrap(4, true, '//')|'abcd efgh'|wordwrap(4, wrapstring='|')|s|wordwrap(0)|''|wordwrap|n|wordwrap|'one--two---three----'|wordwrap(5)|'x-1 3-4 a--b --c'|wordwrap(3)
tool|pprint|d|pprint|mixed|pprint|people|pprint|nest|pprint|s|pprint|n|pprint|undefined_thing|pprint|(1,)|pprint|{2: 'b', 1: 'a', 'x': none}|pprint|[]|pprint|{}|pprint|()|pprint|s * 12|pprint|[s * 12, 'word ' * 30]|pprint|{'key': 'word ' * 30, 'b': [s * 9, s * 9]}|pprint|(multi * 20)|pprint|(s * 12,)|pprint|'x' * 100|pprint|['x' * 100, 'y']|pprint
tool|tojson|d|tojson|mixed|tojson|uni|tojson|uni|tojson(ensure_ascii=true)|ctrl|tojson|ctrl|tojson(ensure_ascii=true)|html|tojson|tool|tojson(indent=2)|tool|tojson(indent=4)|tool|tojson(indent='\t')|[]|tojson(indent=2)|{}|tojson(indent=2)|[[], {}]|tojson(indent=1)|d|tojson(separators=(',', ':'))|d|tojson(sort_keys=true)|{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(indent=0, sort_keys=true)
none|tojson|1.0|tojson|1e-5|tojson|1e22|tojson|1e16|tojson|123456.789|tojson|0.1|tojson|-0.0|tojson|true|tojson|'x'|tojson|(1, 2)|tojson|{1: 2, none: 3, true: 4, 1.5: 5}|tojson|undefined_thing|tojson|range(3)|tojson|d.items()|tojson|d|tojson(indent=none)|[undefined_thing]|tojson|l|tojson(bad=1)
n is defined|undefined_thing is defined|undefined_thing is undefined|undefined_thing is not defined|none is none|n is none|n is not none|s is string|n is string|none is string|d is mapping|l is mapping|s is iterable|l is iterable|d is iterable|n is iterable|undefined_thing is iterable|none is iterable|s is sequence|l is sequence|d is sequence|d.items() is sequence|n is sequence|undefined_thing is sequence|range(3) is sequence
t is true|1 is true|t is false|f is false|0 is false|t is boolean|1 is boolean|n is number|t is number|s is number|x is number|n is integer|t is integer|x is integer|x is float|n is float|n is odd|n is even|n is divisibleby 7|n is divisibleby(2)|s is odd|n is eq 7|n is equalto 7|n is == 7|n is ne(7)|n is gt 3|n is lt(3)|n is ge 7|n is le 7|n is greaterthan 1|n is lessthan 1|n is in l|3 is in l|3 is in(l)|s is lower|'abc' is lower|'ABC' is upper|none is sameas none|t is sameas true|1 is sameas true|range is callable|n is callable|undefined_thing is callable|'upper' is filter|'zz' is filter|'odd' is test|'zz' is test|s is escaped
n is nosuchtest|n|nosuchfilter|n is defined and s is string|n is not string and f|n is string or t|n is defined is defined|not n is none|n is none or d.b == 1|n is even if t else 5
undefined_thing()|n()|s()|nosuchmacro(1)|undefined_thing.x|undefined_thing['x']|undefined_thing[0]|undefined_thing[1:]|undefined_thing + 1|1 + undefined_thing|'a' + undefined_thing|undefined_thing * 2|-undefined_thing|-s|none + 1|none * 2|nul[1:]|n[0]|n[1:]|d + d|raise_exception('boom')
l.index(1)|l.index(9)|l.count(1)|words.index('fig')|(1, 2).count(2)|s.nomethod()|l.nomethod()|d.nomethod()|cycler('a', 'b').next()|joiner(',')()|strftime_now('%Y-%m-%d')|strftime_now('%d %b %Y %H:%M:%S %A %B %a %p %I %j %y %%')|strftime_now('%-d %e|%-m')|strftime_now('no directives')|strftime_now('%Z%z|')|strftime_now('%F %T %R %D')
1 if|(1|[1, 2|{1|{1: }|1 +|* 1|'abc|"abc|1 2|a b|a..b|a.|a[|a[]|a[1|a(|f(a=1, 2)|f(a b)|1 = 2|not|and 1|1 and|1 in|1 not 2|@|a ? b|a & b|1__0|0777|'\x4'|'\u12'|x is|x||x|filter|{'a' 1}|a if b else|!a|$|a is not|a;b
n|string|length|(n|string) + 'x'|n|string + 'x'|-5|abs|-n|abs|(-n)|abs|2 * n|float|'a' ~ n|string|words|first|upper|words[0]|upper|words[0].upper()|lower|words|map('upper')|join(',')|lower|l|sort|reverse|list|first|[1, 2][0]|{'a': 1}.a|{'a': 1}['a']|'abc'[1]|'abc'.upper()[1:]|(1, 2)[0]|[[1, 2], [3]][0][1]
loop|loop is defined|messages is defined|range is defined|namespace is defined|caller is defined|varargs
""".strip()

STATEMENTS = [
    # if
    "{% if t %}a{% endif %}", "{% if f %}a{% endif %}b", "{% if f %}a{% else %}b{% endif %}",
    "{% if f %}a{% elif t %}b{% else %}c{% endif %}", "{% if f %}a{% elif f %}b{% elif t %}c{% endif %}",
    "{% if t %}{% if f %}x{% else %}y{% endif %}{% endif %}", "{% if undefined_thing %}a{% else %}b{% endif %}",
    "{% if l %}a{% endif %}{% if [] %}b{% endif %}{% if none %}c{% endif %}{% if 0.0 %}d{% endif %}{% if ' ' %}e{% endif %}",
    "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% if f %}{% set q = 1 %}{% endif %}{{ q is defined }}",
    "{% if t %}a", "{% endif %}", "{% if %}a{% endif %}", "{% if t }a{% endif %}", "{% else %}", "{% if t %}a{% endfor %}",
    # for
    "{% for i in l %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}", "{% for c in 'aé日' %}[{{ c }}]{% endfor %}", "{% for x in undefined_thing %}a{% else %}b{% endfor %}",
    "{% for x in none %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }};{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.last }}{% endfor %}", "{% for i in l if i > 9 %}{{ i }}{% else %}no{% endfor %}",
    "{% for p in people if p.age == 30 and p.tags is defined %}{{ p.name }}{{ loop.length }}{% endfor %}",
    "{% for i in range(3) %}{% for k in range(2) %}{{ i }}{{ k }}{{ loop.index }} {% endfor %}{{ loop.index }}|{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% for k in l %}{% break %}{% endfor %}{{ i }}{% endfor %}", "{% break %}", "{% continue %}",
    "{% set v = 1 %}{% for i in l %}{% set v = v + i %}{{ v }} {% endfor %}{{ v }}",
    "{% for i in l %}{% set i = i * 2 %}{{ i }}{% endfor %}", "{% for i in l %}{% endfor %}{{ i is defined }}",
    "{% for i in l %}{% if loop.first %}{% set z = 5 %}{% endif %}{{ z is defined }}{% endfor %}",
    "{% set ns = namespace(a=0, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b ~ i %}{% endfor %}{{ ns.a }}{{ ns.b }}",
    "{% set d2 = {} %}{% set d2.x = 1 %}", "{% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }}{{ ns.y is defined }}{{ ns['x'] }}",
    "{% for n2 in nest recursive %}{{ n2.v }}{% if n2.kids %}[{{ loop(n2.kids) }}]{% endif %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in l %}{{ loop(l) }}{% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for p in people %}{{ loop.changed(p.age) }}{% endfor %}", "{% for i in l -%} {{ i }} {%- endfor %}", "{% for i in [1, 2] + [3] %}{{ i }}{% endfor %}",
    "{% for i in 1, 2 %}{{ i }}{% endfor %}", "{% for i in l[::-1] %}{{ i }}{% endfor %}", "{% for i in (l if t else []) %}{{ i }}{% endfor %}",
    "{% for in l %}{% endfor %}", "{% for i of l %}{% endfor %}", "{% for i in l %}", "{% for 1 in l %}{% endfor %}", "{% for true in l %}{% endfor %}",
    "{% for i in l|sort %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for m in words|map('upper') %}{{ m }}{{ loop.last }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{% for i in range(2) %}{{ loop }}{% break %}{% endfor %}"[:0] + "{% for i in range(3) %}{{ i }}{% else %}e{% endfor %}",
    "{% for line in multi.split('\\n') %}{{ line }}|{% endfor %}", "{% for g, items in people|groupby('age') %}{{ g }}:{{ items|length }} {% endfor %}",
    # blocks
    "{% block a %}x{{ n }}{% endblock %}|", "{% block a %}x{% endblock a %}{{ self.a() }}", "{% block a %}x{% endblock b %}",
    "{% block a %}x{% endblock %}{% block a %}y{% endblock %}", "{% set q = 1 %}{% block a %}{{ q }}{% set q = 2 %}{{ q }}{% endblock %}{{ q }}",
    "{% for i in l %}{% block a %}[{{ i }}{{ loop is defined }}]{% endblock %}{% endfor %}",
    "{% for i in l %}{% block a scoped %}[{{ i }}{{ loop.index }}]{% endblock %}{% endfor %}", "{% block a required %} {# c #} {% endblock %}",
    "{% block a required %}x{% endblock %}", "{% block a scoped required %}{% endblock %}", "{% block %}x{% endblock %}", "{% block a %}x",
    "{% block a %}{% block b %}in{% endblock %}side{% endblock %}{{ self.b() }}{{ self.a() | upper }}", "{{ self.nosuch() }}", "{{ self.nosuch is defined }}",
    "{% block a %}{{ super() }}{% endblock %}", "{% for i in l %}{% block a %}{% break %}{% endblock %}{% endfor %}", "{% block a-b %}x{% endblock %}",
    "{% macro m() %}M{% endmacro %}{% block a %}{{ m() }}{% endblock %}", "{% block a %}{% macro m() %}M{% endmacro %}{% endblock %}{{ m is defined }}",
    "{% if f %}{% block a %}hidden{% endblock %}{% endif %}{{ self.a() }}", "{{ tools is defined }}{{ tools is none }}{{ documents is none }}",
    # set
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a %}x{{ n }}y{% endset %}{{ a }}|{{ a|length }}",
    "{% set a | upper %}abc{% endset %}{{ a }}", "{% set a | replace('b', 'X') | upper %}abc{% endset %}{{ a }}", "{% set a %}{% set q = 1 %}{% endset %}{{ q is defined }}",
    "{% set n = n + 1 %}{{ n }}", "{% set 1 = 2 %}", "{% set a %}", "{% set a = %}", "{% set a.b.c = 1 %}", "{% set a['b'] = 1 %}", "{% set = 1 %}", "{% set a = 1 2 %}",
    "{% set none = 1 %}", "{% set undefined_thing.x = 1 %}", "{% set a = a %}{{ a is defined }}", "{% set x = x if x is defined else 1 %}{{ x }}",
    "{% set tools = tools or [] %}{{ tools }}", "{% set a = b = 1 %}", "{% set (a, b) = (1, 2) %}{{ a + b }}", "{% set a, b = [1] %}",
    # macros
    "{% macro m() %}x{% endmacro %}{{ m() }}{{ m() }}", "{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=5) }} {{ m(b=1, a=0) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('q') }}", "{% macro m(n) %}{{ n }}{% if n > 0 %},{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}", "{% macro m() %}{{ v }}{% endmacro %}{% set v = 1 %}{{ m() }}",
    "{% macro m() %}{{ i is defined }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set q = 5 %}{% endmacro %}{{ m() }}{{ q is defined }}", "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}hi{% endcall %}",
    "{% macro m(a) %}{{ a }}{{ caller(a) }}{% endmacro %}{% call(z) m(3) %}<{{ z }}>{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}hi{% endcall %}",
    "{% macro m(a %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m() %}", "{% macro m() %} a {%- endmacro %}[{{ m() }}]",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}{{ m(1) + m(2) }}", "{% macro m() %}{{ '<b>' }}{% endmacro %}{{ m()|upper }}{{ m() is string }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(a, b) %}{{ a }}{{ b is defined }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1}) }}",
    "{% macro rec(o) %}{% if o is mapping %}{ {% for k, v in o|dictsort %}{{ k }}:{{ rec(v) }} {% endfor %}}{% else %}{{ o }}{% endif %}{% endmacro %}{{ rec({'a': {'b': 1}, 'c': 2}) }}",
    # others
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}banana{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}x{% endfilter %}",
    "{% generation %}abc{{ n }}{% endgeneration %}", "{% for i in l %}{% generation %}{{ i }}{% endgeneration %}{% endfor %}", "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% generation %}x",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}", "{% for i in l %}{% with a = i %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% endwith %}{% endfor %}",
    "{% raw %}{{ x }}{% if %}{% endraw %}!", "a {%- raw -%} {{ y }} {%- endraw -%} b", "{% raw %}\n x\n{% endraw %}\ny", "  {% raw %} x {% endraw %}\n  y", "{% raw %}x", "{% raw %}{% endraw", "x\n  {% raw %}\n  {{ a }}\n  {% endraw %}\nz",
    "{# c #}x", "a{# c #}\nb", "a {#- c -#} b", "  {# c #}\n  b", "a\n  {# c #}\n  b", "a {#+ c +#}\n b", "{# unclosed", "{# {{ x }} {% if %} #}y", "{#-#}x", "a\n\n{#- c #}\nb", "{# a #}{# b #}\n{# c #}\nx",
    "{% do x %}", "{% unknown %}", "{% include 'x' %}", "{% %}", "{{ }}", "{{ n", "{% if t %", "{{ n }", "{{ n %}", "}}", "%}", "{", "{ {", "{ % x % }", "{{{ n }}}", "{{ {'a': 1} }}", "{{ {'a': {'b': 2}}['a']['b'] }}", "{{ {'a': {'b': 2}} }}", "a { b } c {x}",
    "{{ cycler }}"[:0] + "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}",
    "{% set j = joiner('; ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "{{ raise_exception('no ' ~ n) }}", "{% if f %}{{ raise_exception('x') }}{% endif %}ok", "{% if f %}{{ n|nosuchfilter }}{% endif %}ok",
    # trailing line ends, line end styles
    "a\n", "a\n\n", "\n", "a\r\nb\r\n", "a\rb", "{{ 'a\r\nb' }}", "{% if t %}\r\na\r\n{% endif %}\r\nb", "", " ", "{{ s }}\n", "{{ s }}\n\n", "{% if t %}a{% endif %}\n",
    # indentation and scopes
    "{% set x = 'o' %}{% macro m(x) %}{{ x }}{% endmacro %}{{ m('i') }}{{ x }}", "{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% set loop = 5 %}{% for i in [1] %}{{ loop.index }}{% endfor %}{{ loop }}",
    "{% for i in l %}{% set q = i %}{% for k in [1] %}{{ q }}{% set q = 9 %}{{ q }}{% endfor %}{{ q }}{% endfor %}", "{% for i in [1, 2] %}{{ q is defined }}{% set q = i %}{{ q }}{% endfor %}",
    "{% set q = 1 %}{% for i in [1, 2] %}{{ q }}{% set q = 7 %}{% endfor %}{{ q }}", "{% set a = [1] %}{% set b = a + [2] %}{{ a }}{{ b }}", "{{ 1 }}{{ 2 }} {{ 3 }}", "{{ 'a' }}\n{{ 'b' }}\n",
]

# White space: each opening with each closing sign, on a line of its own and inside text.
for kind, inner in (("%", "if t"), ("%", "set q = 1"), ("#", "c"), ("{", "n")):
    close = {"%": "%", "#": "#", "{": "}"}[kind]
    for left in ("", "-", "+"):
        for right in ("", "-", "+"):
            tag = "{" + kind + left + " " + inner + " " + right + close + "}"
            end = "{% endif %}" if inner == "if t" else ""
            STATEMENTS.append("a \n  " + tag + "  \n  b" + end)
            STATEMENTS.append("x " + tag + "\n\n y" + end + "\n")
            STATEMENTS.append("\t" + tag + "\n" + end + "z")
for tag in ("{% endif %}", "{%- endif %}", "{%- endif -%}", "{% endif -%}", "{%+ endif %}", "{% endif +%}", "{%+ endif +%}"):
    STATEMENTS.append("1\n  {% if t %}\n    2\n  " + tag + "\n  3")
    STATEMENTS.append("1{% if t %} 2 " + tag + " 3\u3000\n4")
STATEMENTS += ["\u3000{% if t %}a{% endif %}", "\u00a0\n \u2003{% if t %}\n\u00a0a{%- endif %}", "x\f{%- if t %}\x0b a{% endif %}",
               "{{- n -}}", " {{- n -}} \n x", " {{ n }} \n x", "a\n  {{- n }}\n  {{ n -}}\n  b", "{{-1}}", "{{- -1 }}", "{{ 1-}}", "{{ +1 }}", "{{+1}}", "{{ 1+}}",
               "{%if t%}a{%endif%}", "{%-if t-%} a {%-endif-%}", "{% if\nt\n%}\na\n{% endif\n%}\nb", "{{\nn\n}}\n\nx", "  {% if t %}x{% endif %}  {% if t %}y{% endif %}",
               "{% if t %}  {% if t %}  x{% endif %}{% endif %}", "a  {% if t %}\n  b{% endif %}", "a\n \t {% if t %}\n \t b\n \t {% endif %} \t\nc"]
# What is safe for HTML escapes what is added to it.
STATEMENTS += ["{{ " + each + " }}" for each in (
    "'<b>'|safe + html", "html + '<b>'|safe", "'<b>'|safe + '<i>'|safe", "''|safe + html", "html + ''|safe", "'<'|safe + html + '&'",
    "('<'|safe) ~ html", "html|e + '<'", "html|e|e", "html|safe|e", "'<'|safe|string + '<'", "'<'|safe * 2 + '<'", "'<'|safe + l|tojson + '\"'",
    "'<'|safe is escaped", "'<'|e is escaped", "('<'|safe + html) is escaped", "('<'|safe ~ html) is escaped", "'<'|safe + 1",
    "('<'|safe + html)|length", "'<'|safe == '<'", "{'a': 1}['a'|safe]", "['<'|safe, html]|join('&')", "'<'|safe + undefined_thing",
    "'<'|safe in html")]


def snippets():
    """All of them as sources. A row of EXPRESSIONS holds expressions with `|` between them, which is also what
    separates filters: a piece that does not parse alone is not wrong, it only tests that it is refused."""
    out = []
    for row in EXPRESSIONS.splitlines():
        pieces = row.split("|")
        for i, piece in enumerate(pieces):
            out.append("{{ " + piece + " }}")
            for k in (2, 3, 4):
                if i + k <= len(pieces):
                    out.append("{{ " + "|".join(pieces[i:i + k]) + " }}")
    out += STATEMENTS
    return list(dict.fromkeys(out))
