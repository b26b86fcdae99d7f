#include "data/chat/built_in_templates.h"

namespace trainer::data {
namespace {

struct Named {
  std::string_view name;
  const char* source;
};

constexpr Named kTemplates[] = {
    {"chatml", R"({% for message in messages %}
{% if message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- generation %}{{ message.content ~ '<|im_end|>' }}{% endgeneration %}{{ '\n' }}
{%- else %}
{{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
)"},
    {"llama2", R"({% set ns = namespace(system='') %}
{% for message in messages %}
{% if message.role == 'system' and loop.first %}
{% set ns.system = '<<SYS>>\n' ~ message.content ~ '\n<</SYS>>\n\n' %}
{% elif message.role == 'user' %}
{{- bos_token ~ '[INST] ' ~ ns.system ~ message.content | trim ~ ' [/INST]' }}
{%- set ns.system = '' %}
{% elif message.role == 'assistant' %}
{%- generation %}{{ ' ' ~ message.content | trim ~ ' ' ~ eos_token }}{% endgeneration %}
{% else %}
{{- raise_exception('llama2 knows one system message, user and assistant, not ' ~ message.role) }}
{% endif %}
{% endfor %})"},
    {"llama3", R"({{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\n\n' }}
{%- if message.role == 'assistant' %}
{%- generation %}{{ message.content | trim ~ '<|eot_id|>' }}{% endgeneration %}
{% else %}
{{- message.content | trim ~ '<|eot_id|>' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
)"},
    {"mistral", R"({{- bos_token }}
{%- set ns = namespace(system='') %}
{% for message in messages %}
{% if message.role == 'system' and loop.first %}
{% set ns.system = message.content ~ '\n\n' %}
{% elif message.role == 'user' %}
{{- '[INST] ' ~ ns.system ~ message.content ~ ' [/INST]' }}
{%- set ns.system = '' %}
{% elif message.role == 'assistant' %}
{%- generation %}{{ ' ' ~ message.content ~ eos_token }}{% endgeneration %}
{% else %}
{{- raise_exception('mistral knows one system message, user and assistant, not ' ~ message.role) }}
{% endif %}
{% endfor %})"},
    {"alpaca", R"({{- bos_token }}
{%- for message in messages %}
{% if message.role == 'assistant' %}
{{- '### Response:\n' }}
{%- generation %}{{ message.content ~ eos_token }}{% endgeneration %}{{ '\n\n' if not loop.last }}
{%- elif message.role == 'user' %}
{{- '### Instruction:\n' ~ message.content ~ '\n\n' }}
{%- else %}
{{- message.content ~ '\n\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}
)"},
};

}  // namespace

const char* built_in_template(std::string_view name) {
  for (const Named& known : kTemplates)
    if (known.name == name) return known.source;
  return nullptr;
}

std::vector<std::string> built_in_template_names() {
  std::vector<std::string> names;
  for (const Named& known : kTemplates) names.emplace_back(known.name);
  return names;
}

}  // namespace trainer::data
