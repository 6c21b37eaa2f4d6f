// Reasons why something was not judged: what helps.

const RECORD = 'Turn on the recording of content in the agent\'s instrumentation.';
const LIMITS = 'Raise the limit under `limits`.';
const JUDGE = 'Raise the limits of the judge, or judge a sample.';

const HELP = {
  arguments_not_recorded: RECORD, result_not_recorded: RECORD, user_input_not_recorded: RECORD,
  final_output_not_recorded: RECORD, evidence_not_recorded: RECORD,
  tool_definitions_not_recorded: 'Record the tools that are offered, or name them in the config.',
  schema_unusable: 'Mend the schema that the agent offers for the tool, or give one in the config.',
  usage_not_recorded: 'Record usage on the model\'s spans.',
  no_expectation: 'Add its case to the dataset, or narrow `when`.',
  no_tool_calls: 'Narrow `when` if such runs are usual.',
  nothing_to_judge: 'Usual where a run does not need the tool.',
  text_too_large: LIMITS, trajectory_too_large: LIMITS, trace_too_expensive: LIMITS,
  evidence_too_long: JUDGE, queue_full: JUDGE, budget_exhausted: JUDGE, budget_share: JUDGE,
  rate_limited: JUDGE, deadline: JUDGE,
  judge_unsure: 'Ask by votes, or sharpen the criteria.',
  judge_refused: 'Look at the content filter of the judge\'s provider.',
  injection_suspected: 'Something in the run tries to sway the judge: look at it.',
  circuit_open: 'The judge failed too often: look whether its endpoint answers.',
  evaluator_unavailable: 'Look whether the external evaluator runs.',
};

/** Reason in words. */
export const reasonWords = (reason) => String(reason ?? '').replaceAll('_', ' ');

/** Remedy, or an empty text. */
export const remedy = (reason) => (Object.hasOwn(HELP, reason ?? '') ? HELP[reason] : '');
