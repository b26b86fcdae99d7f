// YAML documents: reading, refusals, and that writing and reading are inverse.
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/config/document/json_text.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"
#include "tests/config/parsed.h"

namespace trainer::config {
namespace {

Node read_node(const std::string& text) {
  return parsed_by(parse_yaml, text, "f.yaml");
}

std::string why_not_yaml(const std::string& text) {
  return refusal_by(parse_yaml, text, "f.yaml");
}

TEST(Yaml, KeepsTextAndPlace) {
  const Node root = read_node("a: no\nb:\n  - 1e8\n  - 'x y'\nc: {d: ~}\n");
  EXPECT_EQ(root.find("a")->text, "no");
  EXPECT_FALSE(root.find("a")->quoted);
  EXPECT_TRUE(root.find("b")->items[1].quoted);
  EXPECT_EQ(to_string(root.find("b")->items[0].mark), "f.yaml:3:5");
  EXPECT_TRUE(root.find("c")->find("d")->is_null());
  EXPECT_EQ(to_string(root.members[2].mark), "f.yaml:5:1");
}

TEST(Yaml, AliasesAreCopies) {
  const Node root = read_node("a: &x {k: 1}\nb: *x\n");
  EXPECT_TRUE(same(*root.find("a"), *root.find("b")));
}

TEST(Yaml, ByteOrderMarkAndWindowsLineEnds) {
  EXPECT_EQ(read_node("\xEF\xBB\xBF"
                  "a: 'b'\r\nc: d\r\n")
                .find("c")
                ->text,
            "d");
}

TEST(Yaml, RefusesInvalidConfigurations) {
  EXPECT_EQ(why_not_yaml("a: 1\nb: 2\na: 3\n"),
            "f.yaml:3:1: 'a' is given twice, with another value on line 1: leave one of them out");
  EXPECT_EQ(why_not_yaml("a: 'b\nc: d\n"), "f.yaml:1:4: this quote is never closed");
  EXPECT_EQ(why_not_yaml("a: \"b\\\"\nc: d\n"), "f.yaml:1:4: this quote is never closed");
  EXPECT_EQ(why_not_yaml("a: &x [*x]\n"), "f.yaml:1:8: this alias (*name) is inside the value that it refers to");
  EXPECT_EQ(why_not_yaml("a: !!python/object x\n"),
            "f.yaml:1:4: YAML tags are not supported (tag:yaml.org,2002:python/object)");
  EXPECT_EQ(why_not_yaml("{a: 1}: 2\n"), "f.yaml:1:1: a key must be plain text");
  EXPECT_EQ(why_not_yaml("a: 1\n---\nb: 2\n"), "f.yaml: holds more than one YAML document (---)");
  EXPECT_EQ(why_not_yaml(std::string("a: \0", 4)), "f.yaml: holds a zero byte at offset 3: not a text file");
  EXPECT_EQ(why_not_yaml("a: \"\\0\"\n"), "f.yaml:1:4: a text can't hold a zero byte (\\0)");
  EXPECT_EQ(why_not_yaml("a: [1, 2\nb: 3\n").substr(0, 7), "f.yaml:");
}

TEST(Yaml, RefusesDocumentsBeyondLimits) {
  EXPECT_NE(why_not_yaml(std::string(5 << 20, '[')), "");
  EXPECT_EQ(why_not_yaml("a: " + std::string(100, '[') + std::string(100, ']')),
            "f.yaml:1:35: nested more than 32 deep: not a configuration");
  EXPECT_NE(why_not_yaml(std::string(1 << 19, '[')), "");
  EXPECT_NE(why_not_yaml(repeated("- ", 100'000)), "");
  EXPECT_NE(why_not_yaml("a: [" + repeated("x,", 30'000) + "]"), "");
  EXPECT_EQ(why_not_yaml("{" + std::string(201, 'k') + ": 1}"), "f.yaml:1:2: a key of more than 200 bytes");
  // A few aliases of a long text, and lists that get deeper with each alias.
  EXPECT_EQ(why_not_yaml("a: &x " + std::string(1 << 19, 'x') + "\nb: [*x, *x, *x]\n"),
            "f.yaml:2:13: aliases (*name) repeat more than 1048576 bytes");
  EXPECT_EQ(why_not_yaml("a: &x " + repeated("[", 20) + repeated("]", 20) + "\nb: [[[[[[[[[[[[*x]]]]]]]]]]]]\n"),
            "f.yaml:2:16: nested more than 32 deep: not a configuration");
  // Nine lines that expand to ten to the ninth values.
  std::string laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    laughs += fmt::format("a{}: &a{} [{}]\n", i, i, repeated(fmt::format("*a{},", i - 1), 10));
  }
  EXPECT_NE(why_not_yaml(laughs).find("more than 20000 values"), std::string::npos);
}

TEST(Yaml, WritingAndReadingAreInverse) {
  const std::vector<std::string> hard{"",
                                      " ",
                                      "no",
                                      "NO",
                                      "y",
                                      "1e8",
                                      "1_000",
                                      "0x1f",
                                      "12:30:00",
                                      "null",
                                      "~",
                                      "=",
                                      "-",
                                      "- a",
                                      "-a",
                                      "a: b",
                                      "a #b",
                                      "#a",
                                      "a:",
                                      "'",
                                      "\"",
                                      "it's",
                                      "a\nb",
                                      "\t",
                                      "\x01\x7f",
                                      "[a]",
                                      "{a}",
                                      "*a",
                                      "&a",
                                      "!a",
                                      "%a",
                                      "@a",
                                      "`a",
                                      ",a",
                                      "?",
                                      "? a",
                                      ":",
                                      ": a",
                                      "---",
                                      "...",
                                      "|",
                                      ">-",
                                      "ü",
                                      "日本",
                                      "\\",
                                      "a\\nb",
                                      "-1",
                                      "+1",
                                      ".5",
                                      ".inf",
                                      "192.168.1.1",
                                      "C:\\x",
                                      " a",
                                      "a ",
                                      "\x04",
                                      "\r",
                                      "a\r\nb",
                                      "\xEF\xBB\xBF"
                                      "a"};
  Node root = Node::map();
  for (std::size_t i = 0; i < hard.size(); ++i) root[fmt::format("k{}", i)] = Node::scalar(hard[i], true);
  root["list"] = Node::list(hard);
  for (const std::string& text : hard) {
    if (!text.empty()) root["map"].kind = Node::Kind::kMap, root["map"][text] = Node::scalar(text, true);
  }
  Node nested;
  nested.kind = Node::Kind::kList;
  nested.items = {Node::list({"a", "b"}), root["map"], Node::list({}), Node::map(), Node()};
  root["nested"] = nested;
  EXPECT_TRUE(same(read_node(to_yaml(root)), root)) << to_yaml(root);
}

TEST(Yaml, QuotesLikePyYaml) {
  Node root = Node::map();
  root["a"] = Node::scalar("no", true);
  root["b"] = Node::scalar("false");
  root["c"] = Node::scalar("-1");
  root["d"] = Node::list({});
  root["e"] = Node::scalar("10.0.0.1", true);
  EXPECT_EQ(to_yaml(root), "a: 'no'\nb: false\nc: -1\nd: []\ne: 10.0.0.1\n");
}

TEST(Scalar, ParsesBooleans) {
  for (const char* text : {"yes", "YES", "on", "True", "1", "t", "Y"}) EXPECT_EQ(parse_bool(text), true) << text;
  for (const char* text : {"no", "NO", "off", "False", "0", "f", "N"}) EXPECT_EQ(parse_bool(text), false) << text;
  for (const char* text : {"", "2", "maybe", "yess"}) EXPECT_EQ(parse_bool(text), std::nullopt) << text;
}

TEST(Scalar, ParsesIntegers) {
  EXPECT_EQ(parse_int("1e8"), 100'000'000);
  EXPECT_EQ(parse_int("-7"), -7);
  EXPECT_EQ(parse_int("+7"), 7);
  EXPECT_EQ(parse_int("1_000"), 1000);
  EXPECT_EQ(parse_int("2.0"), 2);
  EXPECT_EQ(parse_int("9223372036854775807"), INT64_MAX);
  for (const char* text :
       {"", "1.5", "010", "0x10", "1e30", "9223372036854775808", "1 2", "_1", "--1", "+-1", "nan", "inf"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << text;
  }
}

TEST(Scalar, NumbersRoundTripExactly) {
  for (const double value : {0.1, 5e-5, 1e-8, 1.0 / 3, 1e300, -2.5, 0.0, 25.0, 4.9e-324}) {
    EXPECT_EQ(parse_double(double_text(value)), value) << double_text(value);
  }
  EXPECT_EQ(double_text(5e-5), "5.0e-05");
  EXPECT_EQ(double_text(3), "3.0");
  for (const char* text : {"", "fast", ".inf", "nan", "1e999", "1,5"})
    EXPECT_EQ(parse_double(text), std::nullopt) << text;
}

TEST(Json, PreservesTypesAndOrder) {
  const Node node = read_node("{model_type: t5, n: 2, eps: 1e-6, tie: no, text: '2', one: 1.0, none: ~, l: [a, 1, true]}");
  EXPECT_EQ(to_json(node),
            R"({"model_type":"t5","n":2,"eps":1e-06,"tie":false,"text":"2","one":1.0,"none":null,"l":["a",1,true]})");
  EXPECT_EQ(to_json(from_json(to_json(node))), to_json(node));
  EXPECT_THROW(from_json("{"), ConfigError);
}

}  // namespace
}  // namespace trainer::config
