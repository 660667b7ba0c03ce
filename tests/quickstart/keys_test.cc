// Tests `weft keys`: each key has a description, and all keys of the shipped run files are listed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/config/config_document.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Keys : public ::testing::Test {
 protected:
  nlohmann::json listed(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"keys"};
    all.insert(all.end(), words.begin(), words.end());
    auto& keys = processes_.run("weft", all);
    EXPECT_EQ(keys.wait(), 0) << keys.text();
    return nlohmann::json::parse(keys.text());
  }
  RealProcesses processes_{"keys"};
};

/// True if a schema of `weft keys --schema` allows a value, which may be a map, a list or a scalar.
bool has_place(const nlohmann::json& schema, const ConfigNode& node);

bool has_place_in_one(const nlohmann::json& schema, const ConfigNode& node) {
  const std::string type =
      schema.value("type", nlohmann::json("")).is_string() ? schema.value("type", "") : "scalar";
  if (node.kind() == ConfigNode::Kind::kMap) {
    if (type.empty() && !schema.contains("enum")) return true;
    if (type != "object") return false;
    for (const auto& [key, value] : node.entries()) {
      if (schema.contains("properties") && schema["properties"].contains(key)) {
        if (!has_place(schema["properties"][key], value)) return false;
      } else if (!schema.value("additionalProperties", nlohmann::json(true)).is_object() ||
                 !has_place(schema["additionalProperties"], value)) {
        ADD_FAILURE() << value.path() << " is no key of the schema";
        return false;
      }
    }
    return true;
  }
  if (node.kind() == ConfigNode::Kind::kList) {
    if (type.empty() && !schema.contains("enum")) return true;
    if (type != "array") return false;
    for (const ConfigNode& item : node.items())
      if (schema.contains("items") && !has_place(schema["items"], item)) return false;
    return true;
  }
  if (schema.contains("enum"))
    return std::ranges::find(schema["enum"], nlohmann::json(node.as<std::string>())) !=
           schema["enum"].end();
  return type != "object" && type != "array";
}

bool has_place(const nlohmann::json& schema, const ConfigNode& node) {
  if (!schema.contains("anyOf")) return has_place_in_one(schema, node);
  for (const nlohmann::json& one : schema["anyOf"])
    if (one.value("type", nlohmann::json("")) != "null" && has_place_in_one(one, node)) return true;
  return false;
}

TEST_F(Keys, EveryKeyOfEveryAppHasALineAndAType) {
  for (const char* app : {"gpt", "u_transformer", "classifier", "select", "two_layers"}) {
    const nlohmann::json keys = listed({app, "--json"});
    EXPECT_GT(keys.size(), 30u) << app;
    for (const nlohmann::json& key : keys) {
      EXPECT_NE(key["line"], "") << app << ": " << key["key"];
      EXPECT_LE(key["line"].get<std::string>().size(), 160u) << app << ": " << key["key"];
    }
  }
}

TEST_F(Keys, TheSchemaHasAPlaceForAllOfTheShippedRunFiles) {
  for (const auto& [app, file] :
       {std::pair("gpt", "cluster.yaml"), std::pair("classifier", "apps/classifier/fashion.yaml"),
        std::pair("u_transformer", "apps/u_transformer/two_meshes.yaml"),
        std::pair("u_transformer", "apps/u_transformer/folded.yaml"),
        std::pair("select", "apps/select/fashion.yaml"),
        std::pair("two_layers", "apps/two_layers/two_layers.yaml")}) {
    const nlohmann::json schema = listed({app, "--schema"});
    const auto document = ConfigDocument::load(fs::path(WEFT_SOURCE_DIR) / file);
    EXPECT_TRUE(has_place(schema, document.root())) << file;
  }
}

TEST_F(Keys, ArePrintedForPeopleBelowAKeyAndForTheAppOfARunFile) {
  auto& text = processes_.run("weft", {"keys", "gpt", "recovery"});
  EXPECT_EQ(text.wait(), 0);
  EXPECT_THAT(text.text(), HasSubstr("recovery.copy_every: whole number of at least 0, steps; "
                                     "default 10\n    How often the state is copied"));
  EXPECT_THAT(text.text(), ::testing::Not(HasSubstr("training")));
  processes_.write("run.yaml", "name: a\napp: two_layers\n");
  EXPECT_THAT(listed({"run.yaml", "--json"}).dump(), HasSubstr("model.width"));
  auto& wrong = processes_.run("weft", {"keys", "gpt", "recovry"});
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_THAT(wrong.text(), HasSubstr("gpt has no key 'recovry'; did you mean 'recovery'?"));
  auto& absent = processes_.run("weft", {"keys", "gtp"});
  EXPECT_EQ(absent.wait(), 1);
  EXPECT_THAT(absent.text(), ::testing::AllOf(HasSubstr("the app "), HasSubstr(" does not exist")));
}

}  // namespace
}  // namespace weft::test
