// Finds the first lines with a word in the texts of the folder `texts`, where the program is
// started. Hosts must see that folder at the same path. A reader gives its lines as it finds them,
// and stops when nobody takes more.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"

using namespace weft::actors;

struct Match {
  std::string file;
  int number = 0;
  std::string text;
  static constexpr auto fields = weft::fields(&Match::file, &Match::number, &Match::text);
};

struct Reader {
  explicit Reader(Context&) {}
  /// Gives the lines of a file that contain a word. Is at most 16 lines ahead of the caller.
  generator<Match> lines(std::string path, std::string word) {
    std::ifstream file(path);
    if (!file) throw weft::Error(weft::ErrorCode::kNotFound, path + " cannot be read");
    int number = 0;
    for (std::string text; std::getline(file, text);) {
      ++number;
      if (text.find(word) == std::string::npos) continue;
      const Match match{std::filesystem::path(path).filename().string(), number, text};
      co_yield match;
    }
  }
  static constexpr auto endpoints = interface<"examples.reader", 1>(on<&Reader::lines>("lines"));
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Reader>();
  return app.run([](Cluster& cluster, const AppRun&) {
    const auto reader = cluster.spawn<Reader>("reader", {});
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator("texts"))
      paths.push_back(std::filesystem::absolute(entry.path()).string());
    std::sort(paths.begin(), paths.end());
    int found = 0;
    for (const std::string& path : paths) {
      for (auto&& line : reader.stream<&Reader::lines>(path, "the")) {
        const auto& [file, number, text] = line.value();
        fmt::print("{}:{}: {}\n", file, number, text);
        if (++found == 3) return 0;  // ends the generator
      }
    }
    return 0;
  });
}
