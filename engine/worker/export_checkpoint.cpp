#include <filesystem>
#include <optional>

#include "engine/checkpoint/export_checkpoint.h"
#include "engine/checkpoint/export_megatron.h"
#include "engine/checkpoint/signature.h"

#include "engine/base/errors.h"
#include "engine/worker/commands.h"

namespace trainer::worker {

int export_checkpoint_command(const std::vector<std::string>& args) {
  require(args.size() == 4 || args.size() == 6, "export-checkpoint takes 4 or 6 arguments, not {}", args.size());
  const std::filesystem::path output = args[1];
  const std::string &trusted_key = args[2], &sign = args[3];
  std::optional<checkpoint::SigningKey> key;
  if (!sign.empty()) key.emplace(sign, "--sign");
  std::error_code error;
  if (key && std::filesystem::exists(output, error) && !std::filesystem::is_empty(output, error))
    throw ConfigError("{} holds other files, which --sign would sign too: export to another folder", output.string());
  if (!trusted_key.empty()) checkpoint::verify_signed(args[0], checkpoint::PublicKey(trusted_key, "--key"));
  if (args.size() == 4)
    checkpoint::export_checkpoint(args[0], output);
  else
    checkpoint::export_megatron(args[0], output, {std::stoll(args[4]), std::stoll(args[5])});
  if (key) checkpoint::sign_folder(output, checkpoint::run_name(output), *key);
  fmt::print("exported {} to {}\n", args[0], args[1]);
  return kDone;
}

}  // namespace trainer::worker
