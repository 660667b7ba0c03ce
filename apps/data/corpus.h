#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::apps {

/// Returns the King James Version as plain text: one verse per line, a blank line between chapters,
/// 4.1 MB.
///
/// Runs the `bible` program of the Debian packages bible-kjv and bible-kjv-text.
/// Throws Error(kFailedPrecondition), which names the packages, if it is not installed.
std::string kjv_text();

/// Converts the output of `bible -f` ("Ge1:1 In the beginning ...", a verse per line) to that text.
std::string clean_verses(std::string_view printed);

/// Text split into a part to train on and a held-out part.
struct TextSplit {
  std::string train;
  std::string validation;
};

/// Holds out `fraction` of the text as `blocks` contiguous passages, spread evenly.
///
/// Whole passages are held out, so that validation does not measure lines whose neighbours were
/// trained on. Several passages are held out, so that validation does not measure the style of one
/// book. Passages begin and end at line ends. If long lines would make the held-out part less than
/// half or more than twice the fraction, passages begin and end at spaces. If words are too long as
/// well, they begin and end between any two characters.
TextSplit split_text(std::string_view text, double fraction, int blocks);

}  // namespace weft::apps
