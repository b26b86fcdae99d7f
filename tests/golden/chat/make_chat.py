"""Writes chat.json: the output of transformers (with jinja2) for templates, dialogues and expressions.

Run with the versions in requirements.txt of the parent folder:  python make_chat.py
"""

import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = {"id": "abcdefghi", "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 3, "scale": None, "at": [1.5, True]}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The \"weather\" <of> a city's day",
                                           "parameters": {"type": "object", "properties": {
                                               "city": {"type": "string"}}, "required": ["city"]}}}]
CHATS = [
    [turn("user", "Hello")],
    [turn("user", "Hello"), turn("assistant", "Hi, who is there?")],
    [turn("system", "You are kind."), turn("user", " Hello "), turn("assistant", " Hi \n"), turn("user", "Bye")],
    [turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("assistant", "d"), turn("user", "e"),
     turn("assistant", "f")],
    [turn("system", "S"), turn("user", "Grüezi 你好 🙂\u00a0"), turn("assistant", "ſtraße\tİ \u3000")],
    [turn("user", ""), turn("assistant", "")],
    [turn("system", ""), turn("user", "x\r\ny"), turn("assistant", "{{ 1 }} {% if %} {# #}")],
    [turn("assistant", "I begin"), turn("user", "No")],
    [turn("user", "one"), turn("user", "two"), turn("assistant", "three")],
    [turn("user", "think"), turn("assistant", "<think>\nlong\n</think>\n\nshort"), turn("user", "again"),
     turn("assistant", "<think>more</think>last")],
    [turn("user", "q"), turn("assistant", "w", reasoning_content="\nbecause\n")],
    [turn("system", "one"), turn("user", "u"), turn("system", "two"), turn("assistant", "a")],
    [turn("narrator", "Once")],
    [],
]
TOOL_CHATS = [
    [turn("user", "Weather?"), {"role": "assistant", "tool_calls": [CALL]}, turn("tool", "sunny"),
     turn("assistant", "It is sunny.")],
    [turn("system", "Use tools"), turn("user", "Weather?")],
]

EXPRESSIONS = r'''
{{ 1 + 2 * 3 - 4 }}|{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ -2 ** 2 }} {{ 2 * -3 }} {{ +5 }} {{ 2.5 // 1 }} {{ -2.5 % 2 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789.125 }}
{{ 0.1 + 0.2 }} {{ 1.0 }} {{ 100000000000000000.0 }} {{ 3 }} {{ 5.0 // 2 }} {{ 0.0001 }} {{ 0.00001 }}
{{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1, 'x'] ~ {'k': 'v'} ~ (1,) ~ missing }}
{{ 'it''s' }}{{ "a" 'b' }}
{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'x' * -1 }}|{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1, 2) + (3,) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == false }}
{{ 'b' in 'abc' }} {{ 'd' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 'x' in missing }} {{ '' in 'a' }}
{{ true and 'x' }} {{ '' or 'y' }} {{ not 'x' }} {{ 0 and 1 }} {{ none or [] or 'z' }} {{ not not 1 }} {{ not 1 == 2 }}
{{ 'y' if true else 'n' }}{{ 'y' if false }}{{ 'a' if 0 else 'b' if 0 else 'c' }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[:-1] }} {{ 'hello'[-3:] }} {{ 'hello'[::2] }} {{ 'hello'[10:] }}|{{ 'hello'[9] }}
{{ [1, 2, 3][1:] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][5:1:-2] }} {{ (1, 2, 3)[:2] }} {{ [1, 2, 3][-9:9] }} {{ [1,2,3][2:0:-1] }}
{{ 'Grüße 你🙂'[4:] }} {{ 'Grüße 你🙂' | length }} {{ '🙂ab' | reverse }} {{ '🙂ab'[0] }}
{{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {'a': {'b': 2}}.a.b }} {{ {'a': 1}.b is defined }} {{ {1: 'x', none: 'y', 2.5: 'z'}[1] }}
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'c') }} {{ {'items': 3}['items'] }}
{{ {'a': 1, 'b': 2}.items() | list }} {{ {'a': 1, 'b': 2}.keys() | list }} {{ {'a': 1, 'b': 2}.values() | list }}
{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }}
{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ '\n\ta\u00a0' | trim }}|{{ none | trim }}|{{ missing | trim }}|{{ 12 | trim }}
{{ '  a '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|{{ 'xya'.strip('yx') }}|{{ '\n\na'.lstrip('\n') }}|{{ 'äöaö'.strip('öä') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.replace('b', 'XX') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ 'hello wORLD-foo (bar'.title() }} {{ "they're bill's".title() }} {{ 'hello wORLD-foo (bar' | title }} {{ "they're bill's" | title }} {{ 'hELLO wORLD' | capitalize }}
{{ 'straße ÄÖ' | upper }} {{ 'ÄÖ ABC' | lower }} {{ 'éa'.upper() }} {{ 'ABC'.lower() }} {{ 'ñandú Él'.title() }} {{ 'éa'.capitalize() }}
{{ 'abcabc'.find('c') }} {{ 'abc'.find('x') }} {{ 'banana'.count('an') }} {{ '-'.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ 'äb'.find('b') }}
{{ [1, 2, 3] | join }} {{ [1, 2, 3] | join(', ') }} {{ [{'a': 1}, {'a': 2}] | join('/', attribute='a') }} {{ 'abc' | join('-') }} {{ [none, true] | join(' ') }}
{{ [1, 2] | first }} {{ [1, 2] | last }} {{ [] | first }}|{{ 'abc' | first }} {{ 'abc' | last }} {{ {'k': 1} | first }}
{{ [1, 2] | length }} {{ 'abc' | count }} {{ {'a': 1} | length }} {{ missing | length }} {{ 'abc' | list }} {{ {'a': 1} | list }}
{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ -3.9 | int }} {{ none | int }} {{ ' 42 ' | int }} {{ true | int }}
{{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }} {{ 'x' | float(1.5) }} {{ '1e3' | float }} {{ 42.55 | round }} {{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(0, 'ceil') }} {{ 5 | round }}
{{ -3 | abs }} {{ -2.5 | abs }} {{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [3, 1, 2] | sort(reverse=true) }} {{ [{'a': 2}, {'a': 1}] | sort(attribute='a') }}
{{ [1, 2, 1, 3] | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ [1, 2, 3] | reverse | list }} {{ [1, 5, 3] | max }} {{ [4, 2] | min }} {{ [1, 2, 3] | sum }} {{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }}
{{ [1, 0, 2, none] | select | list }} {{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 2, 3] | reject('equalto', 2) | list }} {{ [1, 2, 3] | select('gt', 1) | list }} {{ [1, 'a'] | select('string') | list }}
{{ [{'r': 'u', 'n': 1}, {'r': 'a', 'n': 2}] | selectattr('r', 'equalto', 'a') | map(attribute='n') | list }} {{ [{'r': 1}, {}] | selectattr('r', 'defined') | list | length }} {{ [{'r': 0}, {'r': 1}] | rejectattr('r') | list }}
{{ ['a', 'b'] | map('upper') | join }} {{ [{'a': 1}, {}] | map(attribute='a', default=9) | list }} {{ [[1, 2], [3, 4]] | map('first') | list }} {{ [{'a': {'b': 7}}] | map(attribute='a.b') | list }} {{ ['a-b'] | map('replace', '-', '+') | list }}
{{ missing | default('d') }} {{ none | default('d') }} {{ '' | default('d', true) }} {{ missing | d }}|{{ {'a': 1}.b | default('e') }} {{ false | default('x', boolean=true) }}
{{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ 'x' | string }} {{ 5 | string }} {{ 'x' | safe }} {{ none | string }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ 'a\n' | indent }}|
{{ {'a': 1, 'b': [1, 2.5, none, true, 'ä"\n<']} | tojson }} {{ 'x' | tojson }} {{ none | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ (1, 2) | tojson }}
{{ {'a': [1, {'b': 2}], 'c': [], 'd': {}} | tojson(indent=2) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {'a': 1, 'b': 2} | tojson(separators=(',', ':')) }} {{ 'ä🙂' | tojson(ensure_ascii=true) }} {{ [1, 2] | tojson(indent=0) }}
{{ '\x01\x7f\u2028\t' | tojson }} {{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }} {{ 1e20 | tojson }} {{ 1e-7 | tojson }}
{{ ['a"b', "it's", 'b\\c', 'n\n', '\x01', 'ä', '\u200b', "both'\""] }}
{{ {'a': none, 'b': [true, missing]} }} {{ [] }} {{ () }} {{ {} }} {{ [[1], (2, 3)] }} {{ [1.0, 2] }}
{{ 1 is defined }} {{ missing is defined }} {{ missing is undefined }} {{ none is none }} {{ 1 is not none }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is mapping }}
{{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ 'a' is iterable }} {{ 5 is iterable }} {{ missing is iterable }} {{ (1,) is iterable }}
{{ 1 is number }} {{ true is number }} {{ 1.5 is number }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 3 is ge 3 }} {{ 1 is in [1] }} {{ 'a' is lower }} {{ 'A1' is upper }}
{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ range(3) | length }} {{ range(10)[3] }}
{{ dict(a=1, b='x') }} {{ dict({'a': 1}, b=2) }} {{ namespace(a=1).a }} {{ range is callable }} {{ strftime_now is defined }}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0) %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}
{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}{% if missing %}x{% endif %}{% if x is defined and x %}y{% else %}z{% endif %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in missing %}x{% else %}nothing{% endfor %}{% for c in 'äb' %}{{ c }},{% endfor %}
{% for i in range(5) if i % 2 %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}:{{ i }} {% endfor %}
{% for i in [1, 2, 3] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}{% for k in {'p': 1, 'q': 2} %}{{ k }}{% endfor %}
{% for i in [1, 2] %}{% for j in [3, 4] %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }}{% endfor %}
{% macro m(a, b=2) %}{{ a }}+{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }} {{ m(1) | upper ~ '!' }}
{% set y = 5 %}{% macro m() %}{{ y }}{% set y = 6 %}{{ y }}{% endmacro %}{{ m() }}{{ y }}{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% set b %}a {{ 1 + 1 }}{% endset %}{{ b }} {{ b | length }}{% set c | upper | trim %} xy {% endset %}[{{ c }}]
a{# note #}b{#- note -#} c {{- 1 -}} d  {%- if true -%}  e  {%- endif -%}  f
{{ 'a' }}{{- ' b' -}}   {{ 'c' }}
{{ "\u00e4\x41\n\t\\\'\"" }}{{ 'C:\dir' }}{{ '\101' }}
{{ 'a'|upper ~ 'b'|upper }} {{ (1, 2)|length + 3 }} {{ 'abc'|first|upper }} {{ -1|abs }} {{ 'x'.upper()|lower }} {{ [3,1]|sort|first }}
{{ 1 if 2 in [2] and not 3 in [4] else 5 }} {{ 'a' if missing is defined else 'b' }} {{ missing is defined or true }} {{ 1 is not string }}
{{ [1,2,] }} {{ {'a':1,} }} {{ (1) }} {{ 1, 2 }} {{ [[1,2],[3]][0][1] }} {{ {'a':[1,2]}.a.1 }} {{ (1,2).0 }}
{{ none | select | list }}{{ '' | selectattr('a') | list }}{{ 0 | reject('odd') | list }}{{ false | rejectattr('a', 'eq', 1) | list }}{{ none | map('upper') | list }}{{ missing | map(attribute='a') | list }}
{{ none | selectattr('a', 'nothing_such') | list }} {{ [] | select('nothing_such') | list }} {{ {} | map('nothing_such') | list }}
{{ [1] | select('nothing_such') | list }}
{{ [1] | map('nothing_such') | list }}
{{ none | list }}
{{ none | unique | list }}
{{ 5 | select | list }}
{{ '<b>' | safe ~ '<i>' }} {{ ('<b>' | safe) + '<i>' }} {{ '&"' + ('<b>' | safe) }} {{ ('a' | safe) * 2 + '<' }} {{ '<' + ('x' | safe) + "'" }} {{ 5 | safe + '>' }} {{ missing | safe + '>' }}
{{ (' <b> ' | safe | trim) + '<' }} {{ ('b' | safe).upper() + '<' }} {{ ('b' | safe | upper) + '<' }} {{ ('b' | safe | title) + '<' }} {{ ('bc' | safe)[1:] + '<' }} {{ ('bc' | safe)[0] + '<' }} {{ ('b' | safe | string) + '<' }} {{ ('b\nc' | safe | indent) + '<' }}
{{ ('b-c' | safe).split('-')[0] + '<' }} {{ ('a' | safe).replace('a', '<') }} {{ 'a' | safe | replace('a', '<') + '<' }} {{ ('<' | safe).join(['>', 'x' | safe]) }} {{ ['<', 'b' | safe] | join('>') }} {{ ['a' | safe] }} {{ {'k': 'a' | safe} }} {{ ('ab' | safe | reverse) + '<' }} {{ ('ab' | safe | first) + '<' }}
{{ '<' | e }} {{ '<' | escape | e }} {{ '<' | escape | forceescape }} {{ 5 | e }} {{ none | e }} {{ ('<' | e) + '<' }} {{ ('a' | safe) == 'a' }} {{ {'a': 1}['a' | safe] }} {{ 'a' | safe | tojson }} {{ ('a' | safe) is string }} {{ 'a' in ('ab' | safe) }} {% set x %}<{% endset %}{{ x + '<' }}
{% filter upper %}a{{ 1 + 1 }}b{% endfilter %} {% filter trim | replace('a', 'b') %} aXa {% endfilter %}|{% filter indent(2, true) %}a{{ '\n' }}b{% endfilter %}
{% filter nothing_such %}a{% endfilter %}
{% filter %}a{% endfilter %}
{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, 2, 3, 4) }} {{ m(1, c=5) }} {{ m(*[7, 8, 9]) }} {{ m(**{'a': 1, 'z': 2}) }} {{ m(0, *(1, 2), **{'q': 3}) }}
{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }} {{ m(*[], **{'b': 5}) }} {{ m(1, *[2], **{}) }} {{ dict(**{'a': 1}) }} {{ range(*[1, 4]) | list }} {{ 'a-b'.split(*['-']) }} {{ 'ab' | replace(*['a', 'b']) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**{'b': 1}) }}
{% if false %}{{ 1 | nothing_such }}{% endif %}{{ 1 if true else (2 | nothing_such) }}{% if true or 1 is nothing_such %}a{% endif %}
{% if true %}{{ 1 | nothing_such }}{% endif %}
{% if false %}{% for i in [1] %}{{ i | nothing_such }}{% endfor %}{% endif %}
{% if false %}{% for i in [1] %}{% if i %}{{ i | nothing_such }}{% endif %}{% endfor %}{% endif %}b
{% if false %}{% set x | nothing_such %}{% endset %}{% endif %}
{% macro m() %}{{ 1 | nothing_such }}{% endmacro %}
{{ 'a{}b{}'.format(1, none) }} {{ '{1}{0}{1}'.format('x', [2]) }} {{ '{k}{{}}'.format(k=1.5) }} {{ '{}'.format(1, 2, z=3) }} {{ ('<{}>' | safe).format('<') }}
{{ '{}'.format() }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ dict(*1) }}
{{ dict(**[1]) }}
{{ dict(*[], 1) }}
{{ dict(**{}, *[]) }}
{{ dict(a=1, *[{'b': 2}]) }}
{% macro m(*a) %}{% endmacro %}
{{ 1 + missing }}
{{ missing.a }}
{{ missing() }}
{{ 1 + 'a' }}
{{ 'a' < 1 }}
{{ 1 / 0 }}
{{ [1].append(2) }}
{{ {'a': 1}.update({'b': 2}) }}
{{ raise_exception('no') }}
{{ 5 | length }}
{{ none[1:] }}|{{ 5[1:] }}
{{ [1] | map('upper') | length }}
{{ range(1000000) | length }}
{{ missing | tojson }}
{{ {[1]: 2} }}
{{ 'a' in 5 }}
{{ none + 1 }}
{% for i in 5 %}{% endfor %}
{% set a, b = [1] %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{{ none.a }}|{{ 5.a }}
{{ none.a }}|{{ 'x'.nothing }}|{{ [1].a }}|{{ {'a': 1}[0] }}|{{ [1]['a'] }}|{{ true.x }}
{{ 1 is foo }}
{{ 1 | foo }}
{{ 1 + }}
{{ [1, }}
{% if %}{% endif %}
{% if 1 %}
{% endfor %}
{{ 'abc }}
{{ 1 ! 2 }}
{% for %}{% endfor %}
{{ {'a' 1} }}
{{ 01 }}
{{ 1 is defined is defined }}
'''.strip("\n").split("\n")
MORE = [
    "  {% if true %}\n  a\n  {% endif %}\n\n  b\n", "{% if true %}x{% endif %}\n", "a\n{{ 1 }}\n\n", "a\r\nb\rc\n\n",
    "  {%+ if true %} a{% endif +%}\nb", "x  {% if true %}\n y{% endif %}", "\t{# c #}\n  z", "  {#- c -#}  \n  z",
    "{{ 1 }}  \n  {%- if true %}  \n  a  {% endif -%}  \n b", "a\n   {{- 'x' }}\n{{ 'y' -}}\n   b", "",
    "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\nend", "{% for i in [1] -%}\n\n  a\n  {%- endfor %}\n",
    "a {# multi\nline {{ x }} #} b\n  {# d #}   {# e #}\nf", "{{ '}}' }}{{ '%}' }}{% if '%}' %}k{% endif %}",
    "{{ {'a': {'b': 1}} }}", "{{ {'a': {}}}}", "{{'a\nb'}}\n", "{% set x %}\n  a\n  {% endset %}[{{ x }}]",
    "{%- set a = 1 -%}\n\n{{ a }}", "{% if a %}{% else %}\n\n{% endif %}.", " {% if 1 %} {% endif %} x",
]


def positions(text, ranges):
    """Character ranges as byte ranges."""
    return [[len(text[:a].encode()), len(text[:b].encode())] for a, b in ranges]


def render(template, chat, prompt, tools=None):
    try:
        texts, ranges = render_jinja_template(
            [chat], tools=tools, chat_template=template, add_generation_prompt=prompt,
            return_assistant_tokens_mask="{% generation %}" in template, **TOKENS)
    except Exception:  # any error of jinja2 or Python
        return None
    return [texts[0], positions(texts[0], ranges[0])] if ranges else [texts[0]]


def main():
    templates = {path.stem: path.read_text() for path in sorted((HERE / "templates").glob("*.jinja"))}
    rendered = {}
    for name, source in templates.items():
        rendered[name] = [render(source, chat, prompt) for chat in CHATS for prompt in (False, True)]
        rendered[name] += [render(source, chat, True, TOOLS) for chat in TOOL_CHATS]
    expressions = [[text, (render(text, CHATS[0], False) or [None])[0]] for text in EXPRESSIONS + MORE]
    golden = {"tokens": TOKENS, "tools": TOOLS, "chats": CHATS, "tool_chats": TOOL_CHATS, "rendered": rendered,
              "expressions": expressions}
    text = json.dumps(golden, ensure_ascii=False, indent=0, separators=(",", ":"))
    (HERE / "chat.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
