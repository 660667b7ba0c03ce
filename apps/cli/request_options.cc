#include "apps/cli/request_options.h"

namespace weft::apps {

std::vector<CLI::Option*> add_request_options(CLI::App& command, ReshardRequest& request,
                                              const std::string& heading) {
  std::vector<CLI::Option*> options;
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    options.push_back(command.add_option(name, value, text)->type_name(type)->group(heading));
    return options.back();
  };
  add("--shape", request.shape, "Shape of the tensor, such as 1024x1024x512", "NxN..");
  add("--dtype", request.dtype, "f32, i32, f64, u8 or bf16", "TYPE")->capture_default_str();
  add("--from", request.from,
      "Source mesh and spec, such as 2x4:S0,R,R (hosts x devices; R, S0, S1, S01, S10 per "
      "dimension)",
      "MESH:SPEC");
  add("--to", request.to, "Destination mesh and spec", "MESH:SPEC");
  add("--to-first-host", request.to_first_host,
      "Host the destination mesh begins on; default: after the source", "N");
  add("--link", request.link_rates, "Speed of one host's link; may be repeated", "HOST=RATE")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--rate", request.rate, "Speed of every host's link, each way")
      ->type_name("RATE")
      ->group(heading)
      ->capture_default_str();
  return options;
}

}  // namespace weft::apps
