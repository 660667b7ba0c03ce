#include "mesh/schedule/schedule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/config/located_text.h"

namespace weft::mesh {
namespace {

// Exclusive limit of stages, actors and microbatches; larger numbers are taken for typing errors.
constexpr int kMaxCount = 1 << 20;

/// Returns a cell without the quotes that spreadsheets add.
LocatedText unquoted(const LocatedText& cell) {
  const bool is_quoted =
      cell.text.size() >= 2 && cell.text.starts_with('"') && cell.text.ends_with('"');
  return is_quoted ? cell.sub(1, cell.text.size() - 2).trimmed() : cell;
}

/// Returns a line without trailing commas, which spreadsheets add to make lines equally long.
LocatedText without_empty_cells(const LocatedText& line) {
  return line.sub(0, line.text.find_last_not_of(", \t") + 1);
}

class Reader {
 public:
  Reader(const std::string& source, ActionSpelling spelling)
      : source_(source), spelling_(spelling) {}

  ScheduleText read(std::string_view text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    std::vector<LocatedText> rows;
    for (const LocatedText& row : lines_of(text)) {
      const LocatedText trimmed = row.trimmed();
      if (trimmed.text.empty()) continue;
      if (const LocatedText line = unquoted(without_empty_cells(trimmed));
          line.text.starts_with('#')) {
        header(line.sub(1).trimmed());
      } else {
        rows.push_back(row);
      }
    }
    if (rows.empty())
      throw_error(ErrorCode::kInvalidConfig, "{}: there is no row of actions", source_);
    for (const LocatedText& row : rows) {
      result_.schedule.actors.emplace_back();
      for (const LocatedText& piece : split(row, ',')) cell(unquoted(piece.trimmed()));
    }
    finish();
    return std::move(result_);
  }

 private:
  /// Action whose spelling (the meaning of B) is not determined yet.
  struct Word {
    LocatedText piece;
    int stage = 0;
    std::string_view kind;
    int microbatch = kNoMicrobatch;
    bool joins_previous = false;
    std::size_t actor = 0;
  };

  [[noreturn]] void fail(const LocatedText& at, const std::string& message) const {
    throw_error(ErrorCode::kInvalidConfig, "{}:{}:{}: {}", source_, at.line, at.column, message);
  }

  int number(const LocatedText& piece, const char* what) const {
    int value = -1;
    const auto [end, error] =
        std::from_chars(piece.text.data(), piece.text.data() + piece.text.size(), value);
    if (error != std::errc() || end != piece.text.data() + piece.text.size() || value < 0 ||
        value >= kMaxCount) {
      fail(piece,
           fmt::format("'{}' is not {} (a number from 0 to {})", piece.text, what, kMaxCount - 1));
    }
    return value;
  }

  void header(const LocatedText& piece) {
    const std::size_t colon = piece.text.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = piece.text.substr(0, colon);
    const LocatedText value = piece.sub(colon + 1).trimmed();
    if (key == "name") {
      result_.schedule.name = value.text;
    } else if (key == "vocabulary barriers") {
      result_.schedule.vocabulary_barriers = number(value, "0, 1 or 2");
      if (result_.schedule.vocabulary_barriers > 2)
        fail(value, "there are 0, 1 or 2 vocabulary barriers");
    } else if (key == "actors of stages") {
      placement_ = value;
      for (const LocatedText& one : name_in_words(value))
        result_.schedule.actor_of_stage.push_back(number(one, "an actor"));
    } else if (key == "edge") {
      const std::vector<LocatedText> parts = name_in_words(value);
      if (parts.size() != 2 && (parts.size() != 4 || parts[3].text != "bytes")) {
        fail(value, "expected an edge as '# edge: FROM TO' or '# edge: FROM TO N bytes'");
      }
      StageEdge edge{number(parts[0], "a stage"), number(parts[1], "a stage"), 0};
      if (parts.size() == 4) {
        const LocatedText& bytes = parts[2];
        const auto [end, error] =
            std::from_chars(bytes.text.data(), bytes.text.data() + bytes.text.size(), edge.bytes);
        if (error != std::errc() || end != bytes.text.data() + bytes.text.size()) {
          fail(bytes, fmt::format("'{}' is not a number of bytes", bytes.text));
        }
      }
      if (!result_.edges) result_.edges.emplace();
      result_.edges->push_back(edge);
      edge_places_.push_back(value);
    }
  }

  void cell(const LocatedText& piece) {
    if (piece.text.empty()) return;
    if (piece.text.front() != '(') {
      word(piece, false, false);
      return;
    }
    const std::size_t close = piece.text.find(')');
    if (close == std::string_view::npos)
      fail(piece, "a compound needs a ')', as in (0F7;7B3)OVERLAP_F_B");
    if (const std::string_view rest = piece.text.substr(close + 1);
        rest != "OVERLAP_F_B" && !rest.empty()) {
      fail(piece.sub(close + 1),
           fmt::format("expected OVERLAP_F_B after the compound, not '{}'", rest));
    }
    bool first = true;
    for (const LocatedText& part : split(piece.sub(1, close - 1), ';')) {
      word(part.trimmed(), !first, true);
      first = false;
    }
  }

  void word(const LocatedText& piece, bool joins_previous, bool is_member) {
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t kind = piece.text.find_first_not_of(kDigits);
    const auto wrong = [&] {
      fail(piece, fmt::format("'{}' is not an action; expected stage, kind and microbatch, as in "
                              "0F3 or 1B0; the kinds: F, B, I, W, R, "
                              "S, T, IF, IB, REDUCE_GRAD, OPT",
                              piece.text));
    };
    if (kind == 0 || kind == std::string_view::npos) wrong();
    const std::size_t after = std::min(piece.text.find_last_not_of(kDigits) + 1, piece.text.size());
    Word one{piece,
             number(piece.sub(0, kind), "a stage"),
             piece.text.substr(kind, after - kind),
             kNoMicrobatch,
             joins_previous,
             result_.schedule.actors.size() - 1};
    if (after < piece.text.size()) one.microbatch = number(piece.sub(after), "a microbatch");
    for (const std::string_view ignored :
         {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD"}) {
      if (one.kind != ignored) continue;
      if (is_member) fail(piece, fmt::format("{} cannot be part of a compound", one.kind));
      ++result_.ignored_operations;
      return;
    }
    static constexpr std::string_view kKinds[] = {"F", "B", "BW", "I",  "W",           "R",
                                                  "S", "T", "IF", "IB", "REDUCE_GRAD", "OPT"};
    if (std::ranges::find(kKinds, one.kind) == std::end(kKinds)) wrong();
    const bool whole_step = one.kind == "REDUCE_GRAD" || one.kind == "OPT";
    if (whole_step && one.microbatch != kNoMicrobatch)
      fail(piece, fmt::format("{} has no microbatch", one.kind));
    if (!whole_step && one.microbatch == kNoMicrobatch) {
      fail(piece, fmt::format("'{}' lacks its microbatch, as in {}0", piece.text, piece.text));
    }
    words_.push_back(one);
  }

  ActionSpelling detect() const {
    std::set<std::pair<int, int>> wholes;
    for (const Word& one : words_) {
      if (one.kind == "BW") return ActionSpelling::kOld;
      if (one.kind == "I") return ActionSpelling::kCurrent;
      if (one.kind == "B") wholes.insert({one.stage, one.microbatch});
    }
    const bool split = std::ranges::any_of(words_, [&](const Word& one) {
      return one.kind == "W" && wholes.contains({one.stage, one.microbatch});
    });
    return split ? ActionSpelling::kOld : ActionSpelling::kCurrent;
  }

  ActionKind kind_of(const Word& word, ActionSpelling spelling) const {
    const bool old = spelling == ActionSpelling::kOld;
    if (word.kind == "B") return old ? ActionKind::kInputGrad : ActionKind::kBackward;
    if (word.kind == "BW" && old) return ActionKind::kBackward;
    if (word.kind == "I" && old)
      fail(word.piece,
           "I is mixed with BW: this file spells the whole backward BW and the input gradient B; "
           "use one spelling");
    for (int kind = 0; kind <= static_cast<int>(ActionKind::kOptimizer); ++kind) {
      if (word.kind == to_string(static_cast<ActionKind>(kind)))
        return static_cast<ActionKind>(kind);
    }
    fail(word.piece, "BW is mixed with I: BW is the old spelling of B; write B");
  }

  void finish() {
    const ActionSpelling spelling = spelling_ == ActionSpelling::kDetect ? detect() : spelling_;
    Schedule& schedule = result_.schedule;
    // Actor and first occurrence of each stage.
    std::vector<std::pair<int, LocatedText>> row_of_stage;
    for (const Word& one : words_) {
      const Action action{one.stage, kind_of(one, spelling), one.microbatch, one.joins_previous};
      schedule.actors[one.actor].push_back(action);
      schedule.stages = std::max(schedule.stages, one.stage + 1);
      schedule.microbatches = std::max(schedule.microbatches, one.microbatch + 1);
      row_of_stage.resize(std::max<std::size_t>(row_of_stage.size(), schedule.stages), {-1, {}});
      auto& [actor, place] = row_of_stage[one.stage];
      if (actor < 0) {
        actor = one.actor;
        place = one.piece;
      } else if (actor != static_cast<int>(one.actor)) {
        fail(one.piece, fmt::format("stage {} is in this row and also in the row of actor {} (line "
                                    "{}); put all its actions into one row",
                                    one.stage, actor, place.line));
      }
    }
    if (words_.empty()) throw_error(ErrorCode::kInvalidConfig, "{}: there is no action", source_);
    if (schedule.name.empty()) schedule.name = source_;
    if (placement_) {
      check_placement(row_of_stage);
    } else {
      for (std::size_t stage = 0; stage < row_of_stage.size(); ++stage) {
        if (row_of_stage[stage].first < 0) {
          throw_error(ErrorCode::kInvalidConfig, "{}: stage {} has no action, but stage {} has",
                      source_, stage, schedule.stages - 1);
        }
        schedule.actor_of_stage.push_back(row_of_stage[stage].first);
      }
    }
    for (std::size_t i = 0; i < edge_places_.size(); ++i) {
      const StageEdge& edge = (*result_.edges)[i];
      if (edge.from >= schedule.stages || edge.to >= schedule.stages || edge.from == edge.to) {
        fail(edge_places_[i], fmt::format("there is no edge {} -> {} between stages 0 to {}",
                                          edge.from, edge.to, schedule.stages - 1));
      }
    }
  }

  void check_placement(const std::vector<std::pair<int, LocatedText>>& row_of_stage) {
    Schedule& schedule = result_.schedule;
    if (schedule.actor_of_stage.size() < row_of_stage.size()) {
      fail(*placement_, fmt::format("{} stages are placed, but stage {} has actions",
                                    schedule.actor_of_stage.size(), schedule.stages - 1));
    }
    schedule.stages = schedule.actor_of_stage.size();
    for (std::size_t stage = 0; stage < row_of_stage.size(); ++stage) {
      const auto& [actor, place] = row_of_stage[stage];
      if (actor >= 0 && actor != schedule.actor_of_stage[stage]) {
        fail(place,
             fmt::format(
                 "stage {} is placed on actor {}, but its actions are in the row of actor {}",
                 stage, schedule.actor_of_stage[stage], actor));
      }
    }
    for (const int actor : schedule.actor_of_stage) {
      if (actor >= std::ssize(schedule.actors)) {
        fail(*placement_, fmt::format("a stage is placed on actor {}, but there are {} rows", actor,
                                      schedule.actors.size()));
      }
    }
  }

  const std::string& source_;
  const ActionSpelling spelling_;
  ScheduleText result_;
  std::vector<Word> words_;
  std::optional<LocatedText> placement_;
  std::vector<LocatedText> edge_places_;
};

}  // namespace

ScheduleText read_schedule(std::string_view text, const std::string& source,
                           ActionSpelling spelling) {
  return Reader(source, spelling).read(text);
}

std::string write_schedule(const Schedule& schedule, const std::vector<StageEdge>& edges,
                           ScheduleHeader header) {
  std::string text;
  if (header == ScheduleHeader::kFull) {
    text += fmt::format("# name: {}\n# actors of stages: {}\n", schedule.name,
                        fmt::join(schedule.actor_of_stage, " "));
    if (schedule.vocabulary_barriers != 0)
      text += fmt::format("# vocabulary barriers: {}\n", schedule.vocabulary_barriers);
    for (const StageEdge& edge : edges)
      text += fmt::format("# edge: {} {} {} bytes\n", edge.from, edge.to, edge.bytes);
  }
  for (const std::vector<Action>& actions : schedule.actors) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool joins = actions[i].joins_previous,
                 joined = i + 1 < actions.size() && actions[i + 1].joins_previous;
      if (i > 0) text += joins ? ";" : ",";
      if (joined && !joins) text += "(";
      text += to_string(actions[i]);
      if (joins && !joined) text += ")OVERLAP_F_B";
    }
    // read_schedule() would skip a blank line.
    text += actions.empty() ? ",\n" : "\n";
  }
  return text;
}

}  // namespace weft::mesh
