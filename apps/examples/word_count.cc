// Counts the words of the texts in the folder `texts`, where the program is started. Hosts must see
// that folder at the same path. Each worker counts those of its files, and reduce() merges them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"

using namespace weft::actors;

using Counts = std::map<std::string, int>;

struct WordCounter {
  explicit WordCounter(Context& own) : context(own) {}
  /// Returns the counts of every n-th file, beginning with that of this rank.
  Counts count(std::vector<std::string> files) {
    const auto workers = static_cast<std::size_t>(context.place().shape.size());
    Counts counts;
    for (auto i = static_cast<std::size_t>(context.place().rank); i < files.size(); i += workers) {
      std::ifstream text(files[i]);
      for (std::string word; text >> word;) {
        std::erase_if(word, [](unsigned char c) { return std::ispunct(c) != 0; });
        if (!word.empty()) ++counts[word];
      }
    }
    return counts;
  }
  static Counts merge(Counts all, const Counts& more) {
    for (const auto& [word, count] : more) all[word] += count;
    return all;
  }
  static constexpr auto endpoints = interface<"examples.word_counter", 1>(
      on<&WordCounter::count>("count", idempotent, reduce_with<&WordCounter::merge>));
  Context& context;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<WordCounter>();
  return app.run([](Cluster& cluster, const AppRun&) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator("texts"))
      files.push_back(std::filesystem::absolute(entry.path()).string());
    const auto pool = cluster.spawn<WordCounter>("pool", {{"worker", 2}}, {.restarts = 3});
    const Counts counts =
        pool.reduce<&WordCounter::count>(reduce_with<&WordCounter::merge>, files).get();
    std::vector<std::pair<int, std::string>> found;
    for (const auto& [word, count] : counts) found.emplace_back(-count, word);
    std::ranges::sort(found);
    if (found.size() > 5) found.resize(5);
    for (const auto& [count, word] : found) fmt::print("{} {}\n", word, -count);
    return 0;
  });
}
