#include "apps/data/text_data_config.h"

#include <cstdlib>
#include <filesystem>

namespace weft::apps {
namespace {

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home && path.starts_with("~/") ? home + path.substr(1) : path;
}

}  // namespace

TextDataConfig parse_text_data(const ConfigNode& node) {
  TextDataConfig config;
  std::string cache;
  node.read("text", config.text);
  node.read_enum("tokenizer", config.tokenizer,
                 EnumNames<TextDataConfig::TokenizerKind>{{"bpe", TextDataConfig::TokenizerKind::kBpe},
                                                          {"bytes", TextDataConfig::TokenizerKind::kBytes}});
  const bool sized = node.read("vocabulary", config.vocabulary, {.min = 16, .max = 1 << 20});
  node.read("validation_fraction", config.validation_fraction, {.min = 0.001, .max = 0.5});
  node.read("cache", cache);
  node.finish();
  if (config.tokenizer == TextDataConfig::TokenizerKind::kBytes) {
    if (sized && config.vocabulary != 256) node.at("vocabulary").fail("bytes have 256 values: leave `vocabulary` out");
    config.vocabulary = 256;
  }
  config.text = expand_home(config.text);
  if (config.text != "kjv" && !std::filesystem::is_regular_file(config.text))
    node.at("text").fail("there is no text file " + std::filesystem::absolute(config.text).string() +
                         "; expected a path, or kjv for the King James Version");
  if (config.text != "kjv") config.text = std::filesystem::absolute(config.text).string();
  if (!cache.empty()) config.cache = std::filesystem::absolute(expand_home(cache)).string();
  return config;
}

}  // namespace weft::apps
