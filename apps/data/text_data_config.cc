#include "apps/data/text_data_config.h"

#include <filesystem>

namespace weft::apps {
namespace {

/// Makes a path absolute. Fails if it does not exist.
void resolve_text(const ConfigNode& node, const std::string& key, std::string& text) {
  if (text == "kjv" || text == "linux-doc") return;
  text = node.at(key).as_path().string();
  if (!std::filesystem::exists(text))
    node.at(key).fail("data." + key + ": there is no text file " + text +
                      "; expected the path of a file or folder, kjv for the King James "
                      "Version, or linux-doc for the documentation of Linux");
}

}  // namespace

TextDataConfig parse_text_data(const ConfigNode& node) {
  TextDataConfig config;
  std::string cache;
  node.read("text", config.text,
            KeyDescription("The text to train on")
                .type("kjv, linux-doc, or the path of a file or folder"));
  node.read(
      "test", config.test,
      KeyDescription("A text on which the trained model is scored at the end, named as data.text")
          .type("kjv, linux-doc, or the path of a file or folder"));
  node.read_enum(
      "tokenizer", config.tokenizer,
      EnumNames<TextDataConfig::TokenizerKind>{{"bpe", TextDataConfig::TokenizerKind::kBpe},
                                               {"bytes", TextDataConfig::TokenizerKind::kBytes}},
      "How the text becomes tokens: by learned pieces, or by its bytes");
  const bool sized =
      node.read("vocabulary", config.vocabulary,
                KeyDescription("Pieces that bpe learns; bytes have 256").unit("tokens"),
                {.min = 16, .max = 1 << 20});
  node.read("validation_fraction", config.validation_fraction,
            "Share of the text that is held out to validate on", {.min = 0.001, .max = 0.5});
  node.read(
      "cache", cache,
      KeyDescription("Where tokenized texts are kept").type("path").by_default("~/.cache/weft"));
  config.subset = read_subset(node);
  node.finish();
  if (config.tokenizer == TextDataConfig::TokenizerKind::kBytes) {
    if (sized && config.vocabulary != 256)
      node.at("vocabulary").fail("bytes have 256 values: leave `vocabulary` out");
    config.vocabulary = 256;
  }
  resolve_text(node, "text", config.text);
  if (!config.test.empty()) resolve_text(node, "test", config.test);
  if (!cache.empty()) config.cache = node.at("cache").as_path().string();
  return config;
}

}  // namespace weft::apps
