#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "tests/fuzz/mutator.h"

namespace weft {
namespace {

constexpr const char* kSound = R"(name: quickstart
seed: 1
cluster:
  launcher: local
  hosts: [{name: worker0, devices: 2}, &second {name: worker1, devices: 2}]
  spare: *second
  limits: {chunk: 64KiB, wait: 250ms}
training:
  steps: 300
  learning_rate: 1e-3
  betas: [0.9, 0.95]
  clip: ~
  note: "a \"quoted\" text"
  text: |
    two
    lines
)";

/// Reads a node, and every node below it, as every type.
void read_all(const ConfigNode& node, int depth = 0) {
  ASSERT_LT(depth, 200) << "the document has no end";
  const auto attempt = [](auto&& read) {
    try {
      read();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidConfig) << error.what();
    }
  };
  attempt([&] { node.as<std::int64_t>(); });
  attempt([&] { node.as<std::uint8_t>({.min = 1}); });
  attempt([&] { node.as<double>(); });
  attempt([&] { node.as<bool>(); });
  attempt([&] { node.as<std::string>(); });
  attempt([&] { node.as<Nanoseconds>(); });
  attempt([&] { node.as_bytes(); });
  attempt([&] { node.as_enum(EnumNames<int>{{"local", 1}, {"manual", 2}}); });
  attempt([&] { node.find("hosts"); });
  if (node.kind() == ConfigNode::Kind::kList)
    for (const ConfigNode& item : node.items()) read_all(item, depth + 1);
  if (node.kind() == ConfigNode::Kind::kMap)
    for (const auto& [key, value] : node.entries()) read_all(value, depth + 1);
}

void read_document(const std::string& text, std::span<const std::string> overrides = {}) {
  try {
    const auto document = ConfigDocument::parse(text, "fuzz.yaml", overrides);
    read_all(document.root());
    document.finish();
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kInvalidConfig) << error.what();
    ASSERT_FALSE(error.message().empty());
  }
}

TEST(ConfigFuzz, DamagedYamlIsRefusedOrReadToItsEnd) {
  test::Mutator mutator(5);
  for (int round = 0; round < 3'000; ++round) {
    const std::string text = mutator.damage(kSound);
    SCOPED_TRACE(text);
    read_document(text);
    if (HasFatalFailure()) return;
  }
}

TEST(ConfigFuzz, DamagedOverridesAreRefusedOrUsed) {
  test::Mutator mutator(6);
  const std::vector<std::string> sound = {"training.steps=10", "cluster.hosts.0.devices=4",
                                          "training.betas=[1, 2]", "cluster.limits={wait: 5s}"};
  for (int round = 0; round < 2'000; ++round) {
    const std::string text = mutator.damage(sound[mutator.below(sound.size())]);
    SCOPED_TRACE(text);
    read_document(kSound, std::span(&text, 1));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weft
