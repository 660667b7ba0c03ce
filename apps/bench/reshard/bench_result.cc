#include "apps/bench/reshard/bench_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/statistics.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Returns the medians of the other strategies in the same case, by name.
std::map<std::string, double> others_of(const std::vector<BenchResult>& results,
                                        const BenchResult& result) {
  std::map<std::string, double> others;
  for (const BenchResult& other : results)
    if (other.case_name == result.case_name && other.strategy != result.strategy && other.was_run())
      others[other.strategy] = other.median();
  return others;
}

std::map<std::string, double>::const_iterator fastest_strategy(
    const std::map<std::string, double>& medians) {
  return std::min_element(medians.begin(), medians.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::string or_dash(double value, const char* format) {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : "-";
}

}  // namespace

double BenchResult::minimum() const { return *std::min_element(seconds.begin(), seconds.end()); }
double BenchResult::maximum() const { return *std::max_element(seconds.begin(), seconds.end()); }

double BenchResult::median() const { return weft::median(seconds); }

double BenchResult::wire_over_minimum() const {
  return minimum_bytes == 0 ? 0 : wire_bytes / minimum_bytes;
}

double BenchResult::cpu_seconds_per_gib() const {
  return plan_bytes == 0 ? 0 : cpu_seconds / (static_cast<double>(plan_bytes) / (1 << 30));
}

double BenchResult::cpu_per_gbit() const {
  // Each byte between hosts is sent by one host and received by another.
  return plan_bytes == 0 ? 0 : cpu_seconds / (2 * static_cast<double>(plan_bytes) * 8e-9);
}

std::string to_table(const std::vector<BenchResult>& results) {
  std::size_t width = 8;
  for (const BenchResult& result : results) width = std::max(width, result.strategy.size());
  std::string text;
  std::string last;
  for (const BenchResult& result : results) {
    if (result.case_name != last) {
      last = result.case_name;
      text += fmt::format(
          "\n{}: {}; {}, {} hosts{}\n  limit {}\n", result.case_name, result.description,
          format_bytes(result.bytes), result.hosts,
          result.link_bytes_per_second > 0
              ? fmt::format(" with links of {}/s",
                            format_bytes(static_cast<std::uint64_t>(result.link_bytes_per_second)))
              : ", links not limited",
          result.limit_by);
      text +=
          fmt::format("  {:<{}}  {:>8} {:>8} {:>8}  {:>6}  {:>8}  {:>7}  {:>6}  {:>7}  {:>8}  {}\n",
                      "strategy", width, "median", "min", "max", "limit/", "limit/", "wire/",
                      "CPU s", "core per", "plan", "times as fast as");
      text += fmt::format("  {:<{}}  {:>8} {:>8} {:>8}  {:>6}  {:>8}  {:>7}  {:>6}  {:>8}  {:>8}\n",
                          "", width, "ms", "ms", "ms", "median", "forecast", "minimum", "/GiB",
                          "Gbit/s", "ms");
    }
    if (!result.was_run()) {
      text += fmt::format("  {:<{}}  {:>8} {:>8} {:>8}  {:>6}  {:>8.3f}  planned only\n",
                          result.strategy, width, "-", "-", "-", "-", result.forecast());
      continue;
    }
    std::string faster;
    const auto others = others_of(results, result);
    if (const auto baseline = others.find("send_recv"); baseline != others.end())
      faster = fmt::format("send_recv {:.2f}", baseline->second / result.median());
    const auto best = fastest_strategy(others);
    if (best != others.end() && best->first != "send_recv")
      faster += fmt::format("{}{} {:.2f}", faster.empty() ? "" : ", ", best->first,
                            best->second / result.median());
    text += fmt::format(
        "  {:<{}}  {:>8.1f} {:>8.1f} {:>8.1f}  {:>6.3f}  {:>8.3f}  {:>7}  {:>6}  {:>8}  {:>8.2f}  "
        "{}\n",
        result.strategy, width, 1e3 * result.median(), 1e3 * result.minimum(),
        1e3 * result.maximum(), result.ratio_to_limit(), result.forecast(),
        or_dash(result.wire_over_minimum(), "{:.3f}"),
        or_dash(result.cpu_seconds_per_gib(), "{:.2f}"), or_dash(result.cpu_per_gbit(), "{:.3f}"),
        1e3 * result.plan_seconds, faster);
  }
  return text;
}

std::string to_summary(const std::vector<BenchResult>& results, const std::string& strategy) {
  std::string text = fmt::format(
      "| case | task | hosts | limit s | {0}, forecast | {0}, measured | best other | ahead of it "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
      strategy);
  for (const BenchResult& result : results) {
    if (result.strategy != strategy || !result.was_run()) continue;
    const auto others = others_of(results, result);
    const auto best = fastest_strategy(others);
    text += fmt::format(
        "| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", result.case_name, result.description,
        result.hosts, result.limit_seconds, result.forecast(), result.ratio_to_limit(),
        best == others.end()
            ? " | "
            : fmt::format("{} {:.3f} | {:.3f}", best->first,
                          result.limit_seconds > 0 ? result.limit_seconds / best->second : 1,
                          best->second / result.median()));
  }
  return text;
}

std::string to_json(const std::vector<BenchResult>& results) {
  auto cases = nlohmann::ordered_json::array();
  for (const BenchResult& result : results) {
    nlohmann::ordered_json entry = {{"case", result.case_name},
                                    {"strategy", result.strategy},
                                    {"bytes", result.bytes},
                                    {"limit_seconds", result.limit_seconds},
                                    {"forecast", result.forecast()},
                                    {"wire_over_minimum", result.wire_over_minimum()},
                                    {"plan_seconds", result.plan_seconds},
                                    {"predicted_seconds", result.predicted_seconds},
                                    {"cpu_seconds_per_gib", result.cpu_seconds_per_gib()},
                                    {"core_per_gbit_per_second", result.cpu_per_gbit()},
                                    {"plan_bytes_between_hosts", result.plan_bytes},
                                    {"minimum_bytes_between_hosts", result.minimum_bytes},
                                    {"plan_bytes_on_busiest_link", result.plan_link_bytes},
                                    {"bytes_on_busiest_link", result.busiest_link_bytes},
                                    {"hosts", result.hosts},
                                    {"link_bytes_per_second", result.link_bytes_per_second},
                                    {"repetitions", result.seconds},
                                    {"description", result.description}};
    if (!result.was_run()) {
      cases.push_back(std::move(entry));
      continue;
    }
    entry["seconds"] = {
        {"min", result.minimum()}, {"median", result.median()}, {"max", result.maximum()}};
    entry["ratio_to_limit"] = result.ratio_to_limit();
    entry["times_as_fast_as"] = nlohmann::ordered_json::object();
    for (const auto& [name, median] : others_of(results, result))
      entry["times_as_fast_as"][name] = median / result.median();
    cases.push_back(std::move(entry));
  }
  return nlohmann::ordered_json{{"cases", cases}}.dump(2) + "\n";
}

}  // namespace weft::apps
