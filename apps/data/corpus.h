#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::apps {

/// The King James Version as plain text: one verse per line, a blank line between chapters; 4.1 MB.
///
/// Printed by the `bible` program of the Debian packages bible-kjv and bible-kjv-text.
/// Throws Error(kFailedPrecondition) naming the packages when it is not installed.
std::string kjv_text();

/// Turns what `bible -f` prints ("Ge1:1 In the beginning ...", a verse per line) into that text.
std::string clean_verses(std::string_view printed);

/// A text cut in a part to train on and a part held out.
struct TextSplit {
  std::string train;
  std::string validation;
};

/// Holds out `fraction` of the text as `blocks` contiguous pieces, spread evenly.
///
/// Whole passages are held out, never single lines, so that validation measures what the model can
/// continue and not what it has seen around; several of them, so that it is not one book's style
/// that is measured. Passages begin and end at line ends. In a text whose lines are so long that
/// less than half or more than twice the fraction would be held out, they begin and end at spaces,
/// and in one whose words are so long, between any two characters.
TextSplit split_text(std::string_view text, double fraction, int blocks);

}  // namespace weft::apps
