#pragma once

#include <atomic>
#include <string>

#include "actors/system/system.h"
#include "tests/support/system_options.h"

namespace weft::actors {

inline SystemOptions of_gpt(const std::string& name) {
  SystemOptions options = test::system_options(name);
  options.binary_name = "gpt";
  return options;
}

/// Actor with one method that replies at once and one that never does.
class Oracle final {
 public:
  explicit Oracle(Context& context) : never_(context.make_wakeup()) {}
  int answer(int question) const { return question + 1; }
  task<int> ponder() {
    ++pondering;
    co_await never_.wait();
    co_return 0;
  }
  static inline std::atomic<int> pondering{0};
  static constexpr auto endpoints =
      interface<"test.oracle", 1>(on<&Oracle::answer>("answer"), on<&Oracle::ponder>("ponder"));

 private:
  Wakeup never_;
};

}  // namespace weft::actors
