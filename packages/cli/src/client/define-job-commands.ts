import { type Command, Option } from 'commander'
import { createOptions } from './create-flags.ts'
import { collectValues, durationFlag, numberFlag, quietOption } from './flags.ts'
import { languageOption } from './language.ts'
import type { Define } from './program.ts'

/** Flags of `create` about the sandboxes of tasks. */
const OF_TASKS = new Set([
  ...['--env', '--metadata', '--volume', '--secret', '--network', '--allow', '--deny'],
  ...['--memory', '--cpus', '--pids', '--disk', '--files', '--isolation'],
])

/** Commands about jobs: code or a command over many inputs. */
export function defineJobCommands(program: Command, define: Define): void {
  const job = program.command('job').description('code or a command over many inputs').helpCommand(false)
  const jobs = () => import('./commands/job.ts')
  define(job, {
    usage: 'run [code]',
    summary:
      'run code for each input, and show the progress until all have ended; Ctrl-C leaves the job running',
    options: runOptions(),
    load: async () => (await import('./commands/job-run.ts')).runJob,
    examples: [
      "job run 'item * item' --input 1 --input 2 --input 3",
      'job run --command \'gzip -c "$item" | wc -c\' --inputs paths.json --sandbox analysis',
      'job run -f score.py --inputs rows.jsonl --concurrency 8 --retries 2 --detach',
    ],
  })
  define(job, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list jobs, newest first',
    options: [quietOption()],
    load: async () => (await jobs()).listJobs,
  })
  define(job, {
    usage: 'show <job>',
    summary: 'show a job and its progress',
    load: async () => (await jobs()).showJob,
  })
  define(job, {
    usage: 'wait <job>',
    summary: 'show the progress of a job until it has ended; exit status 1 if a task failed',
    load: async () => (await jobs()).waitForJob,
  })
  define(job, {
    usage: 'results <job>',
    summary: 'print the result of each task, in the order of the inputs',
    options: [stateOption()],
    load: async () => (await jobs()).showResults,
  })
  define(job, {
    usage: 'logs <job> [index]',
    summary: 'print the output of all tasks, or of one',
    options: [stateOption()],
    load: async () => (await jobs()).showLogs,
  })
  define(job, {
    usage: 'cancel <jobs...>',
    summary: 'stop the tasks that run, and start no others; results so far are kept',
    load: async () => (await jobs()).cancelJobs,
  })
  define(job, {
    usage: 'rm <jobs...>',
    summary: 'delete jobs that have ended, with their results',
    load: async () => (await jobs()).removeJobs,
  })
}

function stateOption(): Option {
  return new Option('--state <state>', 'only tasks in this state').choices([
    ...['queued', 'running', 'succeeded', 'failed', 'cancelled'],
  ])
}

function runOptions(): Option[] {
  return [
    new Option('-f, --file <file>', 'read the code from this file; - for standard input'),
    new Option('--command <command>', 'a command for bash instead of code; its input is in $item'),
    new Option(
      '--inputs <file>',
      'the inputs: a JSON array, or one JSON value per line; - for standard input',
    ),
    new Option(
      '--input <json>',
      'one input, any number of times; text that is no JSON is a string',
    ).argParser(collectValues),
    languageOption('--language <language>', 'the language of the code'),
    new Option('--context <name>', 'the context of the sandbox to run the code in'),
    new Option('--variable <name>', 'the variable that has the input (default: item)'),
    new Option('--template <name>', 'run tasks in new sandboxes of this template'),
    new Option('--snapshot <snapshot>', 'run tasks in new sandboxes from this snapshot'),
    new Option('--sandbox <sandbox>', 'run tasks in forks of this sandbox'),
    new Option('--sandbox-per <kind>', 'a sandbox for each task, or workers that run many').choices([
      'task',
      'worker',
    ]),
    new Option('--concurrency <number>', 'how many tasks run at once').argParser(numberFlag('--concurrency')),
    new Option('--retries <number>', 'how often a task that failed runs again').argParser(
      numberFlag('--retries'),
    ),
    new Option('--backoff <time>', 'the pause before the first retry').argParser(durationFlag('--backoff')),
    new Option('--timeout <time>', 'how long one attempt may take').argParser(durationFlag('--timeout')),
    new Option('--priority <number>', 'jobs with a higher one start their tasks first').argParser(
      numberFlag('--priority'),
    ),
    ...createOptions().filter(({ long }) => OF_TASKS.has(long ?? '')),
    new Option('--name <name>', 'a label for the job'),
    new Option('--idempotency-key <key>', 'a repeated command with the same key follows the first job'),
    new Option('-d, --detach', 'print the id and return at once'),
  ]
}
