#include <string_view>
#include <utility>

#include "engine/base/errors.h"
#include "engine/cli/flags.h"

namespace trainer::cli {
namespace {

// The scripts ask the program itself, which answers in a few milliseconds: they fit every version of it.

constexpr std::string_view kBash = R"sh(# bash completion for trainer
_trainer() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "$(trainer --help | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p')" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(trainer "$command" --help 2>/dev/null | grep -oE -- '--[A-Za-z0-9_]+' | sort -u)" -- "$current"))
  elif [[ $command == man && COMP_CWORD -eq 2 ]]; then
    COMPREPLY=($(compgen -W "$(trainer --help | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p')" -- "$current"))
  elif [[ $command == checkpoint && COMP_CWORD -eq 2 ]]; then
    COMPREPLY=($(compgen -W "$(trainer checkpoint --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p')" -- "$current"))
  fi
}
complete -o default -F _trainer trainer
)sh";

constexpr std::string_view kZsh = R"sh(#compdef trainer
# zsh completion for trainer
_trainer() {
  if ((CURRENT == 2)) || [[ ${words[2]} == man && CURRENT -eq 3 ]]; then
    compadd -- ${(f)"$(trainer --help | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p')"}
  elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- ${(f)"$(trainer ${words[2]} --help 2>/dev/null | grep -oE -- '--[A-Za-z0-9_]+' | sort -u)"}
  elif [[ ${words[2]} == checkpoint && CURRENT -eq 3 ]]; then
    compadd -- ${(f)"$(trainer checkpoint --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p')"}
  else
    _files
  fi
}
# Read as a file of $fpath, this runs as the function; sourced, it defines it.
if [[ $funcstack[1] == _trainer ]]; then _trainer "$@"; else compdef _trainer trainer; fi
)sh";

constexpr std::string_view kFish = R"sh(# fish completion for trainer
function __trainer_flags
    set -l words (commandline -opc)
    trainer $words[2] --help 2>/dev/null | string match -ra -- '--[A-Za-z0-9_]+' | sort -u
end
complete -c trainer -n __fish_use_subcommand -f -a "(trainer --help | string match -r '^  [a-z][a-z-]*' | string trim)"
complete -c trainer -n '__fish_seen_subcommand_from man' -f -a "(trainer --help | string match -r '^  [a-z][a-z-]*' | string trim)"
complete -c trainer -n '__fish_seen_subcommand_from checkpoint' -f -a "list verify export now prune"
complete -c trainer -n 'string match -q -- "-*" (commandline -ct)' -f -a "(__trainer_flags)"
)sh";

constexpr std::pair<std::string_view, std::string_view> kScripts[] = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};

}  // namespace

int run_completion(const Arguments& arguments) {
  CLI::App app("Print a script that completes commands and flags in a shell.", "completion");
  app.footer(
      "Examples:\n  source <(trainer completion bash)                                   in ~/.bashrc\n"
      "  source <(trainer completion zsh)                                    in ~/.zshrc, after compinit\n"
      "  trainer completion fish > ~/.config/fish/completions/trainer.fish\n");
  std::string shell;
  app.add_option("SHELL", shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (!parse(app, arguments)) return 0;
  for (const auto& [name, script] : kScripts)
    if (name == shell) fmt::print("{}", script);
  return kDone;
}

}  // namespace trainer::cli
