// The text of a plan, and properties of all tables.
#include "engine/config/pages/reference.h"
#include "engine/config/plan/reader.h"
#include "engine/config/plan/tree.h"
#include "engine/config/tables.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

using PlanText = Given;

/// A value of the option's kind that is not its default.
Node other_value(const Entry& entry) {
  for (const std::string& choice : entry.kind.choices) {
    const bool is_default = choice == entry.initial.text || same(entry.initial, Node::list({choice}));
    if (!is_default) return Node::scalar(choice, true);
  }
  if (entry.name == "fsdp_version") return Node::scalar("2");
  if (entry.kind.type == Type::kBoolean) return Node::scalar(entry.initial.text == "true" ? "false" : "true");
  if (entry.kind.type == Type::kInteger) return Node::scalar("1234567");
  if (entry.kind.type == Type::kNumber) return Node::scalar(double_text(1.0 / 3));
  if (entry.kind.type == Type::kGroup) {
    Node map = Node::map();
    map[".*q"] = Node::scalar("5");
    return map;
  }
  if (entry.kind.words.ends_with("numbers") || entry.kind.words.ends_with("integers")) return Node::list({"3", "7"});
  if (entry.initial.is_list()) return Node::list({"q", "no: \n'x'"});
  return Node::scalar("some, 'text'", true);
}

/// Sets every option to a value other than its default.
void change_all(const Entries& entries, void* section) {
  for (const Entry& entry : entries) {
    if (entry.foreign != Foreign::kNot || (entry.children && !entry.clear && !entry.find(section))) continue;
    if (entry.children) {
      change_all(*entry.children, entry.open(section));
    } else if (entry.kind.choices.size() != 1) {  // options with one choice have no other value
      const Node value = other_value(entry);
      ASSERT_EQ(entry.read(value, section), "") << entry.name;
      ASSERT_FALSE(same(entry.write(section), entry.initial)) << entry.name;
    }
  }
}

TEST_F(PlanText, PreservesEveryOption) {
  Plan plan;
  change_all(root_table(), &plan.config);
  plan.source = "a b.yaml";
  plan.warnings = {"first: 'x'", "second\nline"};
  plan.origins = {{"seed", "f.yaml:1:2"}, {"lora.r", "--set"}};
  plan.translated = {translated_note("tp_size", "2", "f.yaml:2:1", "parallelism_config.tp_size", "2", "it is an alias")};
  const Plan read = parse_plan(to_text(plan));
  EXPECT_TRUE(same(to_node(read.config), to_node(plan.config))) << to_text(plan);
  EXPECT_EQ(read.source, plan.source);
  EXPECT_EQ(read.warnings, plan.warnings);
  EXPECT_EQ(read.origins, plan.origins);
  ASSERT_EQ(read.translated.size(), 1u);
  EXPECT_EQ(read.translated[0].option, "parallelism_config.tp_size");
  EXPECT_EQ(read.translated[0].text, "parallelism_config.tp_size: 2, because it is an alias");
  EXPECT_EQ(read.config.training.learning_rate, 1.0 / 3);
  EXPECT_EQ(to_text(read), to_text(plan));
}

TEST_F(PlanText, PreservesDefaults) {
  const Plan plan = resolve(kLeast);
  EXPECT_EQ(to_text(parse_plan(to_text(plan))), to_text(plan));
  EXPECT_FALSE(parse_plan(to_text(plan)).config.lora);
}

TEST_F(PlanText, DamagedPlanIsAnInternalError) {
  EXPECT_THROW(parse_plan("source: x\n"), InternalError);
  std::string text = to_text(resolve(kLeast));
  EXPECT_THROW(parse_plan(text.replace(text.find("\n  seed:", text.find("\nconfig:")), 8, "\n  sead:")), InternalError);
}

TEST_F(PlanText, ResolvedFileIsAConfiguration) {
  const Plan plan = resolve(kLeast + "lora: {r: 4}\n");
  const std::string text = resolved_text(plan);
  EXPECT_NE(text.find("  r: 4  # "), std::string::npos);
  EXPECT_NE(text.find("seed: 42  # default\n"), std::string::npos);
  Plan again = resolve(text);
  EXPECT_TRUE(same(to_node(again.config), to_node(plan.config)));
}

TEST(Tables, AcceptEveryDefault) {
  Config config;
  config.lora.emplace();
  config.num_processes = 1;
  walk(root_table(), &config, [](const std::string& path, const Entry& entry, const void* section) {
    for (const auto& check : entry.checks) EXPECT_EQ(check(section), "") << path;
    EXPECT_EQ(entry.unsupported ? entry.unsupported(section) : "", "") << path;
    return true;
  });
}

TEST(Bounds, AreInclusiveOrNotAndNamedByTheirOperator) {
  using Operator = Bound::Operator;
  struct Case {
    Operator op;
    bool below, at, above;
    const char* words;
  };
  for (const Case& c : {Case{Operator::kAtLeast, false, true, true, "at least 0.5"},
                        Case{Operator::kAtMost, true, true, false, "at most 0.5"},
                        Case{Operator::kAbove, false, false, true, "above 0.5"},
                        Case{Operator::kBelow, true, false, false, "below 0.5"}}) {
    const Bound bound{c.op, 0.5};
    EXPECT_EQ(to_string(bound), c.words);
    EXPECT_EQ(bound.holds(0.25), c.below) << c.words;
    EXPECT_EQ(bound.holds(0.5), c.at) << c.words;
    EXPECT_EQ(bound.holds(0.75), c.above) << c.words;
  }
  EXPECT_EQ(to_string(Bound{Operator::kAtMost, 1'000'000'000}), "at most 1000000000");
}

TEST(Tables, EveryOptionHasHelpAndUniqueKeys) {
  Config config;
  config.lora.emplace();
  std::set<std::string> seen;
  walk(root_table(), &config, [&](const std::string& path, const Entry& entry, const void*) {
    EXPECT_TRUE(entry.foreign != Foreign::kNot || !entry.help.empty()) << path;
    const std::string prefix = path.substr(0, path.size() - entry.name.size());
    EXPECT_TRUE(seen.insert(path).second) << path;
    for (const std::string& alias : entry.aliases) EXPECT_TRUE(seen.insert(prefix + alias).second) << alias;
    return true;
  });
}

TEST(Tables, ReferencePageIsUpToDate) {
  std::ifstream in(source_dir() + "/configs/README.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(page, reference_page()) << "run: trainer config reference > configs/README.md";
}

TEST_F(PlanText, LocatedMessagesBeginWithTheOrigin) {
  const Plan plan = resolve(kLeast + "training: {learning_rate: 1}\n");
  EXPECT_EQ(without_folder(located(plan, "training.learning_rate: too high")),
            "f.yaml:5:27: training.learning_rate: too high");
  for (const char* other : {"training.max_steps: a default", "no option", "", "f.yaml:5:27: training.learning_rate"})
    EXPECT_EQ(located(plan, other), other);
}

}  // namespace
}  // namespace trainer::config
