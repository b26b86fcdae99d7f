// JSON files: values and positions, and helpful messages for what is refused.
#include <sys/stat.h>
#include <unistd.h>

#include "engine/config/document/json_text.h"
#include "engine/config/plan/files.h"
#include "tests/config/given.h"
#include "tests/config/parsed.h"

namespace trainer::config {
namespace {

Node parse(const std::string& text) {
  return parsed_by(parse_json, text, "f.json");
}

std::string why_not(const std::string& text) {
  return refusal_by(parse_json, text, "f.json");
}

/// Every mark of the tree, in the order of the text: "3:5 key" and "3:12 =value".
void list_marks(const Node& node, std::string& out) {
  auto place = [](const Mark& mark) { return fmt::format("{}:{}", mark.line, mark.column); };
  out += place(node.mark) + (node.is_map() ? " {" : node.is_list() ? " [" : " =" + node.text) + "\n";
  for (const Node& item : node.items) list_marks(item, out);
  for (const Member& member : node.members) {
    out += place(member.mark) + " " + member.key + "\n";
    list_marks(member.value, out);
  }
}

TEST(JsonReader, KeepsTheTextOfEveryValue) {
  const Node root = parse(
      R"({"a": 1e8, "b": 5e-05, "c": 12345678901234567890, "d": -0, "e": 123456789012345678901234567890,
          "t": true, "f": false, "n": null, "s": "1e8", "u": "\u00fc \ud83d\ude00 \"\\\/\n", "l": [], "m": {}, "z":0})");
  const std::vector<std::pair<std::string, std::string>> bare{{"a", "1e8"},
                                                              {"b", "5e-05"},
                                                              {"c", "12345678901234567890"},
                                                              {"d", "-0"},
                                                              {"e", "123456789012345678901234567890"},
                                                              {"t", "true"},
                                                              {"f", "false"},
                                                              {"z", "0"}};
  for (const auto& [key, text] : bare) {
    EXPECT_EQ(root.find(key)->text, text);
    EXPECT_TRUE(root.find(key)->is_scalar());
    EXPECT_FALSE(root.find(key)->quoted) << key;
  }
  EXPECT_TRUE(root.find("n")->is_null());
  EXPECT_EQ(root.find("s")->text, "1e8");
  EXPECT_TRUE(root.find("s")->quoted);
  EXPECT_EQ(root.find("u")->text, "ü 😀 \"\\/\n");
  EXPECT_TRUE(root.find("l")->is_list());
  EXPECT_TRUE(root.find("m")->is_map());
}

TEST(JsonReader, MarksEveryKeyAndValue) {
  std::string marks;
  list_marks(parse("\n {\"a\" :1,\r\n\t\"b\": [2 , -3.5e1,\"x\\\"]\", true],\n"
                   "  \"c\"\n  :\n   {\"d\":{}, \"e\":[null,[]] },\"f\":\"ü\",\"g\":12}\n "),
             marks);
  EXPECT_EQ(marks,
            "2:2 {\n2:3 a\n2:8 =1\n3:2 b\n3:7 [\n3:8 =2\n3:12 =-3.5e1\n3:19 =x\"]\n3:27 =true\n4:3 c\n6:4 {\n6:5 d\n"
            "6:9 {\n6:13 e\n6:17 [\n6:18 =null\n6:23 [\n6:29 f\n6:33 =ü\n6:38 g\n6:42 =12\n");
}

TEST(JsonReader, ReadsAnyRootAsYamlDoes) {
  EXPECT_EQ(parse("7").text, "7");
  EXPECT_EQ(parse(" \"7\"").text, "7");
  EXPECT_TRUE(parse("null").is_null());
  EXPECT_EQ(parse("[1,2]").items.size(), 2u);
  EXPECT_EQ(parse("\xEF\xBB\xBF{\"a\": 1}").members[0].mark.column, 2);
}

TEST(JsonReader, ReportsMistakeAndPosition) {
  const std::vector<std::pair<std::string, std::string>> cases{
      // commas
      {"{\"a\": 1,\n}", "1:8: there is a comma before the closing '}'"},
      {"{\"a\": [1, 2 ,]}", "1:13: there is a comma before the closing ']'"},
      {"{\"a\": 1\n \"b\": 2}", "2:2: a comma is missing before this"},
      {"{\"a\": 1\n {\"b\": 2}}", "2:2: a comma is missing before this"},
      {"[1 2]", "1:4: a comma is missing before this"},
      {"[1,,2]", "1:4: a value is missing here"},
      {"[,1]", "1:2: a value is missing here"},
      {"{,}", "1:2: a key in double quotes is missing here"},
      {"{\"a\":1,,\"b\":2}", "1:8: a key in double quotes is missing here"},
      // colons
      {"{\"a\" 1}", "1:6: a colon is missing after the key 'a'"},
      {"{\"a\", 1}", "1:5: a colon is missing after the key 'a'"},
      {"{\"a\"}", "1:5: a colon is missing after the key 'a'"},
      {"{\"a\"= 1}", "1:5: a colon is missing after the key 'a'"},
      {"{\"a\":}", "1:6: the value of 'a' is missing"},
      {"{\"a\":,\"b\":1}", "1:6: the value of 'a' is missing"},
      {"{\"a\"::1}", "1:6: the value of 'a' is missing"},
      {"[\"a\": 1]", "1:5: a colon must follow a key in double quotes"},
      // quotes
      {"{'a': 1}", "1:2: JSON only has double quotes"},
      {"{\"a\": 'b'}", "1:7: JSON only has double quotes"},
      {"{a: 1}", "1:2: the key a needs double quotes"},
      {"{\"a\": 1, fsdp_config: {}}", "1:10: the key fsdp_config needs double quotes"},
      {"{1: 2}", "1:2: the key 1 needs double quotes"},
      {"{\"a\": bf16}", "1:7: the text bf16 needs double quotes"},
      {"{\"a\": \"b\n}", "1:7: this quote is not closed on its line; write a line break in a text as \\n"},
      {"{\"a\": \"b}", "1:7: this quote is never closed"},
      {"{\"a\": \"b\tc\"}", "1:7: write a tab in a text as \\t"},
      {"{\"a\": \"b\x01\"}", "1:7: write a control character in a text as \\u and four hexadecimal digits"},
      {"{\"a\": \"C:\\data\"}",
       "1:7: a backslash must be followed by one of \"\\/bfnrtu; write a literal backslash as \\\\"},
      {"{\"a\": \"\\u12\"}", "1:7: \\u must be followed by four hexadecimal digits"},
      {"{\"a\": \"\\ud800\"}", "1:7: half of a pair of \\u escapes is missing"},
      // comments
      {"// mine\n{}", "1:1: JSON has no comments"},
      {"{\"a\": 1 /* one */}", "1:9: JSON has no comments"},
      {"{\"a\": 1, # one\n\"b\": 2}", "1:10: JSON has no comments"},
      // words and numbers
      {"{\"a\": True}", "1:7: 'True' must be written as true"},
      {"{\"a\": None}", "1:7: 'None' must be written as null"},
      {"{\"a\": NaN}", "1:7: JSON has no NaN"},
      {"{\"a\": -Infinity}", "1:7: JSON has no -Infinity"},
      {"{\"a\": nul}", "1:7: the text nul needs double quotes"},
      {"{\"a\": 012}", "1:7: '012' is not a JSON number"},
      {"[0, 1-2]", "1:5: '1-2' is not a JSON number"},
      {"[-01]", "1:2: '-01' is not a JSON number"},
      {"{\"a\": 0x1f}", "1:7: '0x1f' is not a JSON number"},
      {"{\"a\": 1_000}", "1:7: '1_000' is not a JSON number"},
      {"{\"a\": +1}", "1:7: '+1' is not a JSON number"},
      {"{\"a\": .5}", "1:7: '.5' is not a JSON number"},
      {"{\"a\": 1.}", "1:7: '1.' is not a JSON number"},
      {"{\"a\": 1e}", "1:7: '1e' is not a JSON number"},
      {"{\"a\": 1e999}", "1:7: this number is too large"},
      {"{\"a\": ?}", "1:7: this is not the start of a value"},
      // brackets and ends
      {"", "1:1: the document is empty"},
      {" \n ", "2:2: the document is empty"},
      {"{\"a\": [1,\n 2", "2:3: the file ends inside the '[' of line 1"},
      {"{\"a\":\n {\n\"b\"", "3:4: the file ends inside the '{' of line 2"},
      {"{", "1:2: the file ends inside the '{' of line 1"},
      {"{\n\"a\": [1}\n", "2:8: the '[' of line 2 is closed by '}' instead of ']'"},
      {"{\"a\": 1]", "1:8: the '{' of line 1 is closed by ']' instead of '}'"},
      {"{} {}", "1:4: there is more text after the end of the document"},
      {"{}}", "1:3: there is more text after the end of the document"},
      {"{\"a\": 1}\nmixed_precision: bf16\n", "2:1: there is more text after the end of the document"},
      {"}", "1:1: a value is missing here"},
  };
  for (const auto& [text, why] : cases) {
    std::string expected = "f.json:" + why;
    expected.insert(expected.find(": ") + 2, "not JSON: ");
    EXPECT_EQ(why_not(text), expected) << text;
  }
}

TEST(JsonReader, RefusesInvalidConfigurations) {
  EXPECT_EQ(why_not("{\"a\": 1,\n\"a\": {\"x\": 2}}"),
            "f.json:2:1: 'a' is given twice, with another value on line 1: leave one of them out");
  EXPECT_EQ(why_not("{\"a\": \"\\u0000\"}"), "f.json:1:7: a text can't hold a zero byte (\\u0000)");
  EXPECT_EQ(why_not("{\"" + std::string(201, 'k') + "\": 1}"), "f.json:1:2: a key of more than 200 bytes");
  EXPECT_EQ(why_not("{\"" + std::string(200, 'k') + "\": 1}"), "");
  EXPECT_EQ(why_not(std::string("{\"a\": \0}", 8)), "f.json: holds a zero byte at offset 6: not a text file");
  EXPECT_EQ(why_not("{\"a\":\n \"b\xFF\"}"), "f.json:2:4: the byte 0xff is not valid UTF-8: save the file as UTF-8");
}

TEST(JsonReader, FirstOfTwoEqualKeysCounts) {
  Problems problems;
  const Node root = parse_json(R"({"a": 1, "a": [2, {"b": 3, "b": 4}], "c": 5})", "f.json", problems);
  EXPECT_EQ(root.find("a")->text, "1");
  EXPECT_EQ(root.members.size(), 2u);
  EXPECT_EQ(problems.text(),
            "f.json:1:10: 'a' is given twice, with another value on line 1: leave one of them out\n"
            "f.json:1:28: 'b' is given twice, with another value on line 1: leave one of them out");
}

TEST(JsonReader, RefusesDocumentsBeyondLimits) {
  EXPECT_EQ(why_not("{\"a\": " + repeated("[", 40) + repeated("]", 40) + "}"),
            "f.json:1:38: nested more than 32 deep: not a configuration");
  EXPECT_EQ(why_not(std::string(1 << 20, '[')), "f.json:1:33: nested more than 32 deep: not a configuration");
  EXPECT_EQ(why_not(repeated("{\"a\":", 100'000)), "f.json:1:161: nested more than 32 deep: not a configuration");
  EXPECT_EQ(why_not(std::string((1 << 20) + 1, ' ')),
            "f.json: is 1048577 bytes long, but a configuration can have at most 1048576");
  EXPECT_EQ(why_not("[" + repeated("1,", 30'000) + "1]"),
            "f.json:1:40000: more than 20000 values: not a configuration");
  EXPECT_EQ(why_not("{\"a\": \"" + std::string(1'000'000, 'x') + "\"}"), "");
}

TEST(JsonReader, AgreesWithYaml) {
  const std::string text = R"({"a": 1, "b": [true, null, "no", 1.5e-3], "c": {"d": "x y", "e": []}, "f": "\"\\\/\t"})";
  Problems problems;
  EXPECT_TRUE(same(parse(text), parse_yaml(text, "f.yaml", problems)));
  EXPECT_EQ(to_json(parse(text)), to_json(parse_yaml(text, "f.yaml", problems)));
}

class Document : public Given {
 protected:
  std::string read(const std::string& path) {
    Problems problems;
    try {
      const Node root = read_document(path, problems);
      problems.throw_if_any();
      return to_json(root);
    } catch (const ConfigError& error) {
      return without_folder(error.what());
    }
  }
  std::string read(const std::string& name, const std::string& text) { return read(write(name, text)); }
};

TEST_F(Document, IsJsonOrYaml) {
  EXPECT_EQ(read("a.json", "{\"a\": 1}"), R"({"a":1})");
  EXPECT_EQ(read("b.json", "a: 1\n"), "b.json:1:1: not JSON: the text a needs double quotes");
  EXPECT_EQ(read("c.yaml", "{a: 1, b: 'x'}\n"), R"({"a":1,"b":"x"})");
  EXPECT_EQ(read("d.yaml", "{\"a\": 1,}"), R"({"a":1})");  // a comma that YAML allows
  EXPECT_EQ(read("e",
                 "\xEF\xBB\xBF"
                 "a: 1\n"),
            R"({"a":1})");
  EXPECT_EQ(read("m.json", repeated("\xEF\xBB\xBF", 300'000) + "7"), "7");
  EXPECT_EQ(read("f.yaml", "{\n\t\"a\": {\n\t\t\"b\": \"\\ud83d\\ude00\",\n\t\t\"a\": 1\n\t}\n}\n"),
            R"({"a":{"b":"😀","a":1}})");
  EXPECT_EQ(read("g.yaml", "{\"a\": 1, \"a\": 2}"),
            "g.yaml:1:10: 'a' is given twice, with another value on line 1: leave one of them out");
}

TEST_F(Document, AccelerateDefaultConfigIsJsonInYaml) {
  const std::string text =
      "{\n  \"compute_environment\": \"LOCAL_MACHINE\",\n  \"debug\": false,\n  \"distributed_type\": \"NO\",\n"
      "  \"mixed_precision\": \"no\",\n  \"num_processes\": 1,\n  \"use_cpu\": true\n}\n";
  const std::string compact =
      R"({"compute_environment":"LOCAL_MACHINE","debug":false,"distributed_type":"NO","mixed_precision":"no",)"
      R"("num_processes":1,"use_cpu":true})";
  EXPECT_EQ(read("a.yaml", text), compact);
  Problems problems;
  EXPECT_EQ(to_json(parse_yaml(text, "f.yaml", problems)), compact);
}

TEST_F(Document, RefusesFilesThatAreNotText) {
  EXPECT_EQ(read("a.yaml", "a: 1\nb: caf\xE9\n"),
            "a.yaml:2:7: the byte 0xe9 is not valid UTF-8: save the file as UTF-8");
  EXPECT_EQ(read("b.json", "{\"caf\xE9\": 1}"), "b.json:1:6: the byte 0xe9 is not valid UTF-8: save the file as UTF-8");
  EXPECT_EQ(read("c.yaml", std::string("\xFF\xFE"
                                       "a\0:\0",
                                       6)),
            "c.yaml: is UTF-16 text: save it as UTF-8");
  EXPECT_EQ(read("d.yaml", std::string("\xFE\xFF\0a", 4)), "d.yaml: is UTF-16 text: save it as UTF-8");
  EXPECT_EQ(read("e.json", std::string("{\0\"\0", 4)), "e.json: is UTF-16 text: save it as UTF-8");
  EXPECT_EQ(read("f.yaml", std::string("a: \0", 4)), "f.yaml: holds a zero byte at offset 3: not a text file");
}

TEST_F(Document, RefusesPathsThatAreNotFiles) {
  const std::string pipe = (folder_ / "pipe.yaml").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read(pipe), "cannot read pipe.yaml: it is not a regular file");
  std::filesystem::create_directory(folder_ / "dir.json");
  EXPECT_EQ(read((folder_ / "dir.json").string()), "cannot read dir.json: it is a folder");
  EXPECT_EQ(read((folder_ / "none.yaml").string()), "cannot read none.yaml: No such file or directory");
  EXPECT_EQ(read("/dev/zero"), "cannot read /dev/zero: it is not a regular file");
  EXPECT_EQ(read("big.yaml", std::string((1 << 20) + 1, ' ')),
            "cannot read big.yaml: it has 1048577 bytes, at most 1048576 are allowed");
}

TEST_F(Document, RefusesFilesWithoutPermission) {
  const std::string file = write("locked.yaml", "a: 1\n");
  chmod(file.c_str(), 0);
  const bool root = geteuid() == 0;  // root can read every file
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  const std::string result = read(file);
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  EXPECT_EQ(result, "cannot read locked.yaml: Permission denied");
}

}  // namespace
}  // namespace trainer::config
