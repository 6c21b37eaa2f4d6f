// Reasons why something was not judged, in words, and what to do.

const NOT_RECORDED = 'Turn on the recording of content in the agent\'s instrumentation.';
const LIMITS = 'Raise the limit under `limits`, or judge fewer evaluators.';
const JUDGE_LIMITS = 'Raise the limits of the judge, or judge a sample.';

const REASONS = {
  arguments_not_recorded: ['arguments of a call are not recorded', NOT_RECORDED],
  result_not_recorded: ['the result of a call is not recorded', NOT_RECORDED],
  user_input_not_recorded: ['the user\'s input is not recorded', NOT_RECORDED],
  final_output_not_recorded: ['the final output is not recorded', NOT_RECORDED],
  tool_definitions_not_recorded: ['no definitions of tools are recorded', 'Give them in the config: `tools:`, or record them.'],
  usage_not_recorded: ['tokens or cost are not recorded', 'Record usage on the model spans.'],
  evidence_not_recorded: ['evidence for the judge is not recorded', NOT_RECORDED],
  plan_not_recorded: ['no plan of the agent is recorded', 'Only agents that write a plan can be judged by it.'],
  no_expectation: ['nothing is expected of this run', 'Add its case to the dataset, or narrow `when`.'],
  no_tool_calls: ['the run holds no tool call', 'Narrow `when` if such runs are usual.'],
  nothing_to_judge: ['nothing in it is what the evaluator asks about', 'Usual where a run does not need the tool.'],
  insufficient_data: ['too little text to judge', ''],
  text_too_large: ['a text is over the limit', LIMITS],
  trajectory_too_large: ['the run is over the limit', LIMITS],
  trace_too_expensive: ['judging it would take too many steps', LIMITS],
  evidence_too_long: ['the record is too long for the judge', JUDGE_LIMITS],
  judge_unsure: ['the judge could not tell', 'Ask by votes, or sharpen the criteria.'],
  judge_refused: ['the judge refused to answer', 'Look at the content filter of its provider.'],
  injection_suspected: ['something in the run tries to sway the judge', 'Look at the run.'],
  content_withheld: ['settings withhold what the judge needs', 'Look at `content` of the judge.'],
  queue_full: ['the queue of the judge was full', JUDGE_LIMITS],
  budget_exhausted: ['the budget of the judge is spent', JUDGE_LIMITS],
  rate_limited: ['the rate limit of the judge left no room', JUDGE_LIMITS],
  circuit_open: ['the judge had failed too often', 'Look whether its endpoint answers.'],
  deadline: ['no answer came in time', 'Raise the timeout, or look whether the endpoint is slow.'],
  shutdown: ['the collector stopped before', 'Nothing: later runs are judged.'],
  external_not_evaluable: ['the external evaluator says so', 'Look at its own log.'],
  evaluator_unavailable: ['the external evaluator did not answer', 'Look whether it runs.'],
};

const known = (reason) => (Object.hasOwn(REASONS, reason ?? '') ? REASONS[reason] : null);

/** Reason in words; an unknown one as it is. */
export const reasonWords = (reason) => known(reason)?.[0] ?? String(reason ?? '').replaceAll('_', ' ');

/** Remedy, or an empty text. */
export const remedy = (reason) => known(reason)?.[1] ?? '';
