#include "apps/select/select_config.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/config/config_document.h"

namespace weft::apps {
namespace {

SelectConfig config_of(const std::string& input, const std::string& rest = "") {
  return read_select(ConfigDocument::parse(
      "name: s\napp: select\nscratch: /tmp/scratch\ninput: {path: kjv" + input + "}\n" + rest,
      "select.yaml"));
}

TEST(SelectConfig, InputsOfDifferentOptionsAreInDifferentFolders) {
  std::set<std::string> folders;
  for (const char* input :
       {"", ", words: 32", ", pieces: {sequence: 64}", ", pieces: {sequence: 32}",
        ", pieces: {sequence: 64, data: {vocabulary: 512}}",
        ", pieces: {sequence: 64, data: {tokenizer: bytes}}",
        ", pieces: {sequence: 64, data: {validation_fraction: 0.1}}"})
    EXPECT_TRUE(folders.insert(config_of(input).prepared()).second) << input;
  EXPECT_EQ(config_of(", words: 32").prepared(), config_of(", words: 32").prepared());
}

TEST(SelectConfig, PointsOfDifferentGraphsAreInDifferentFolders) {
  std::set<std::string> folders;
  for (const char* graph : {"", "graph: {neighbors: 5}", "graph: {recall: 0.5}",
                            "graph: {similarity_floor: 0.5}", "selection: {seed: 2}"})
    EXPECT_TRUE(folders.insert(config_of("", graph).store()).second) << graph;
  const auto given = [](const std::string& ids) {
    return config_of(", neighbors: {ids: " + ids + ", similarities: s.npy}").store();
  };
  EXPECT_NE(given("a.npy"), given("b.npy"));
  EXPECT_EQ(config_of("", "selection: {rounds: 2}").store(), config_of("").store());
}

}  // namespace
}  // namespace weft::apps
