#include "core/config/config_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "core/config/config_sections.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

enum class Colour : std::uint8_t { kRed, kBlue };

struct Garden {
  std::int64_t rows = 4;
  double share = 0.5;
  bool fence = true;
  std::string owner = "Ada";
  Nanoseconds wait = std::chrono::minutes(1);
  std::uint64_t water = std::uint64_t{256} << 20;
  std::vector<int> beds = {1, 2};
  Colour colour = Colour::kBlue;
};

void read_garden(const ConfigNode& node) {
  Garden garden;
  node.require("rows", garden.rows, KeyDescription("Rows of beds").unit("rows"),
               {.min = 1, .max = 9});
  node.read("share", garden.share, "Part that is watered", {.min = 0.0, .max = 1.0});
  node.read("fence", garden.fence, "Whether there is one");
  node.read("owner", garden.owner, "Who owns it");
  node.read("wait", garden.wait, "Time between waterings");
  node.read_bytes("water", garden.water, "Water");
  node.read("beds", garden.beds, "Widths of beds");
  node.read_enum("colour", garden.colour,
                 EnumNames<Colour>{{"red", Colour::kRed}, {"blue", Colour::kBlue}}, "Of the fence");
  if (const auto plants = node.find("plants", "What grows there")) {
    for (const auto& [name, plant] : plants->entries("NAME", "A plant of that name")) {
      int height = 1;
      plant.require("height", height, KeyDescription("Height").unit("cm"));
      if (const auto pots = plant.find("pots", "Where it stands"))
        for (const ConfigNode& pot : pots->items()) {
          int width = 3;
          pot.read("width", width, "Width of a pot");
          pot.finish();
        }
      plant.finish();
    }
  }
  node.find("gate", KeyDescription("How one gets in").type("path"));
  node.finish();
  // Not reached on a document outline: finish() ends its reader.
  node.at("rows").fail("too many");
}

std::vector<ConfigKey> garden_keys() {
  return keys_read_by([](const ConfigDocument& document) {
    const ConfigNode root = document.root();
    ConfigSections sections(root);
    sections.read([&] { read_garden(root.at("garden", "The garden")); });
    sections.read([&] {
      bool open = false;
      root.read("open", open, "Whether it is open");
    });
    sections.finish();
  });
}

const ConfigKey& key(const std::vector<ConfigKey>& keys, const std::string& path) {
  for (const ConfigKey& each : keys)
    if (each.path == path) return each;
  throw_error(ErrorCode::kNotFound, "no key {}", path);
}

TEST(ConfigKeys, AnOptionalNumberHasItsBoundsToo) {
  const std::vector<ConfigKey> keys = keys_read_by([](const ConfigDocument& document) {
    std::optional<int> depth;
    document.root().read("depth", depth, "Depth of a bed", {.min = 1, .max = 3});
    document.root().finish();
  });
  EXPECT_EQ(key(keys, "depth").type_text, "whole number from 1 to 3");
}

TEST(ConfigKeys, AReaderTellsItsKeysWithTypesDefaultsAndLines) {
  const std::vector<ConfigKey> keys = garden_keys();
  std::vector<std::string> paths;
  for (const ConfigKey& each : keys) paths.push_back(each.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"garden", "garden.rows", "garden.share", "garden.fence",
                                      "garden.owner", "garden.wait", "garden.water", "garden.beds",
                                      "garden.colour", "garden.plants", "garden.plants.NAME",
                                      "garden.plants.NAME.height", "garden.plants.NAME.pots",
                                      "garden.plants.NAME.pots[].width", "garden.gate", "open"}));
  EXPECT_EQ(key(keys, "garden.rows").type_text, "whole number from 1 to 9");
  EXPECT_TRUE(key(keys, "garden.rows").required);
  EXPECT_EQ(key(keys, "garden.rows").unit, "rows");
  EXPECT_EQ(key(keys, "garden.rows").summary, "Rows of beds");
  EXPECT_EQ(key(keys, "garden.share").default_text, "0.5");
  EXPECT_EQ(key(keys, "garden.fence").default_text, "true");
  EXPECT_EQ(key(keys, "garden.owner").default_text, "Ada");
  EXPECT_EQ(key(keys, "garden.wait").default_text, "1min");
  EXPECT_EQ(key(keys, "garden.water").default_text, "256MiB");
  EXPECT_EQ(key(keys, "garden.beds").default_text, "[1, 2]");
  EXPECT_EQ(key(keys, "garden.beds").type_text, "list of whole number");
  EXPECT_EQ(key(keys, "garden.colour").type_text, "one of red, blue");
  EXPECT_EQ(key(keys, "garden.colour").default_text, "blue");
  EXPECT_EQ(key(keys, "garden.gate").type_text, "path");
  EXPECT_EQ(key(keys, "open").default_text, "false");
}

TEST(ConfigKeys, AKeyThatIsAskedForWithoutALineShows) {
  const auto keys = keys_read_by([](const ConfigDocument& document) {
    int rows = 1;
    document.root().read("rows", rows, {.min = 1});
    document.root().has("columns");
  });
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].summary, "");
  EXPECT_EQ(keys[1].path, "columns");
  EXPECT_EQ(keys[1].summary, "");
}

TEST(ConfigKeys, AReaderThatLooksAtValuesBeforeItsFinishIsAFault) {
  EXPECT_THAT(
      [&] {
        keys_read_by([](const ConfigDocument& document) { document.root().fail("no rows"); });
      },
      test::throws_error(ErrorCode::kInternal, "no rows"));
}

TEST(ConfigKeys, AreATextJsonAndASchema) {
  const std::vector<ConfigKey> keys = garden_keys();
  EXPECT_THAT(
      keys_text(keys),
      HasSubstr("garden.rows: whole number from 1 to 9, rows; required\n    Rows of beds\n"));
  EXPECT_THAT(
      keys_text(keys),
      HasSubstr("garden.share: number from 0 to 1; default 0.5\n    Part that is watered\n"));
  const auto json = nlohmann::json::parse(keys_json(keys));
  EXPECT_EQ(json[0]["type"], "map of keys");
  EXPECT_EQ(json[1]["key"], "garden.rows");
  EXPECT_EQ(json[1]["min"], 1);
  EXPECT_EQ(json[8]["choices"], (std::vector<std::string>{"red", "blue"}));
  const auto schema = nlohmann::json::parse(keys_schema(keys, "a garden"));
  EXPECT_EQ(schema["required"], nlohmann::json::array({"garden"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  const auto garden = schema["properties"]["garden"]["anyOf"][0];
  EXPECT_EQ(garden["required"], nlohmann::json::array({"rows"}));
  EXPECT_EQ(garden["properties"]["rows"]["anyOf"][0]["maximum"], 9);
  EXPECT_EQ(garden["properties"]["rows"]["description"], "Rows of beds");
  EXPECT_EQ(garden["properties"]["colour"]["anyOf"][0]["enum"],
            nlohmann::json::array({"red", "blue"}));
  const auto plant = garden["properties"]["plants"]["anyOf"][0]["additionalProperties"];
  EXPECT_EQ(plant["anyOf"][0]["properties"]["pots"]["anyOf"][0]["items"]["properties"]["width"]
                 ["anyOf"][0]["type"],
            "integer");
}

}  // namespace
}  // namespace weft
