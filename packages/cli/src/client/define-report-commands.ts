import { Argument, type Command, Option } from 'commander'
import { collectValues, numberFlag, timeFlag } from './flags.ts'
import type { Define } from './program.ts'

/** Commands that show something and do not wake a sandbox, and the demo. */
export function defineReportCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'show <sandbox>',
    summary: 'show everything about one sandbox: state, limits, what it uses, its snapshots and latest runs',
    load: async () => (await import('./commands/show.ts')).show,
  })
  define(program, {
    usage: 'logs <sandbox> [run]',
    summary: 'show the output of the latest runs, or of one',
    options: [
      new Option('-f, --follow', 'show new output as it arrives, also of runs that start later'),
      new Option('-n, --last <number>', 'number of runs').argParser(numberFlag('--last')).default(10),
      sinceOption(),
    ],
    load: async () => (await import('./commands/logs.ts')).logs,
    examples: ['logs analysis -n 1', 'logs analysis --since 10m', 'logs analysis -f'],
  })
  define(program, {
    usage: 'why <sandbox>',
    summary: 'show what keeps a sandbox awake, when it will sleep, and its latest sleeps and wakes',
    load: async () => (await import('./commands/why.ts')).why,
  })
  define(program, {
    usage: 'ledger <sandbox>',
    summary: 'show every sleep, wake and other change of a sandbox, with its cause and how long it took',
    options: [
      new Option('-f, --follow', 'show new entries as they arrive'),
      new Option('-n, --last <number>', 'only the latest entries').argParser(numberFlag('--last')),
      sinceOption(),
    ],
    load: async () => (await import('./commands/ledger.ts')).ledger,
    examples: ['ledger analysis --since 1h', 'ledger analysis -f'],
  })
  define(program, {
    usage: 'network <sandbox>',
    summary: 'show what a sandbox may reach, what it did and what was denied; or change what it may reach',
    options: [
      new Option('--mode <mode>', 'from now on, allow the public internet, or nothing').choices([
        'public',
        'none',
      ]),
      new Option('--allow <target>', 'from now on, allow only this, any number of times').argParser(
        collectValues,
      ),
      denyOption(),
    ],
    load: async () => (await import('./commands/network.ts')).network,
    examples: [
      'network analysis',
      'network analysis --mode none',
      'network analysis --allow example.com:443',
      'network analysis --deny 198.51.100.0/24',
    ],
  })
  definePageCommands(program, define)
  defineUsageCommands(program, define)
  defineDemoCommand(program, define)
  defineCompletionCommand(program, define)
}

function denyOption(): Option {
  return new Option(
    '--deny <range>',
    'from now on, allow the public internet except this, any number of times',
  ).argParser(collectValues)
}

function sinceOption(): Option {
  return new Option('--since <time>', 'only from this time on: a duration before now, or ISO 8601').argParser(
    timeFlag('--since'),
  )
}

function definePageCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'open',
    summary: 'open the page of the server in a browser, signed in by a link that works once',
    options: [new Option('--no-browser', 'only print the link')],
    load: async () => (await import('./commands/open.ts')).open,
  })
  define(program, {
    usage: 'tree <sandbox>',
    summary: 'show the family of a sandbox: its forks and snapshots, with memory of their own and shared',
    load: async () => (await import('./commands/tree.ts')).tree,
  })
  define(program, {
    usage: 'vars <sandbox> [variable]',
    summary: 'show what contexts have in memory, without waking the sandbox; or the rows of one variable',
    options: [
      new Option('--context <name>', 'only this context (default for one variable: default)'),
      new Option('--offset <row>', 'the first row').argParser(numberFlag('--offset')),
      new Option('-n, --lines <number>', 'number of rows (default: 20)').argParser(numberFlag('--lines')),
      new Option('--sort <column>', 'sort by this column; -column: the largest first'),
      new Option('--filter <expression>', 'only rows such as price>5, name=Ada or name:part').argParser(
        collectValues,
      ),
    ],
    load: async () => (await import('./commands/vars.ts')).vars,
    examples: ['vars analysis', 'vars analysis sales --sort -price --filter shop:north'],
  })
  define(program, {
    usage: 'server',
    summary: 'show how the server and its host are: version, checks, free disk and memory; or its log',
    options: [
      new Option('--log', 'the newest lines of its log'),
      new Option('-f, --follow', 'lines of its log as they come'),
    ],
    load: async () => (await import('./commands/server.ts')).server,
  })
  define(program, {
    usage: 'events [sandbox]',
    summary: 'show what happens to all sandboxes, or to one, as it happens',
    options: [new Option('--after <seq>', 'continue after this event').argParser(numberFlag('--after'))],
    load: async () => (await import('./commands/events.ts')).events,
    examples: ['events', 'events analysis --json'],
  })
}

function defineUsageCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'top',
    summary: 'show a live table of sandboxes: state, memory, CPU, last wake',
    options: [
      new Option('--once', 'print one table and exit'),
      new Option('-n, --lines <number>', 'show at most this many sandboxes').argParser(numberFlag('--lines')),
    ],
    load: async () => (await import('./commands/top.ts')).top,
  })
  define(program, {
    usage: 'usage [sandbox]',
    summary: 'show what was used, what it costs, and what it would have cost without sleep',
    options: [
      new Option('--from <time>', 'start, as ISO 8601 (default: the start of this month)'),
      new Option('--to <time>', 'end, as ISO 8601 (default: now)'),
      new Option('-a, --all', 'one line for each deleted sandbox too'),
    ],
    load: async () => (await import('./commands/usage.ts')).usage,
  })
}

function defineDemoCommand(program: Command, define: Define): void {
  define(program, {
    usage: 'demo',
    summary:
      'load, ask, sleep, wake and fork in one sandbox, and compare it with a fresh sandbox for each question',
    options: [
      new Option('--rows <number>', 'rows of the data frame; 5,000,000 take about 240 MB')
        .argParser(numberFlag('--rows'))
        .default(5_000_000),
      new Option('--keep', 'keep the sandbox afterwards'),
    ],
    load: async () => (await import('./demo/demo.ts')).demo,
  })
}

function defineCompletionCommand(program: Command, define: Define): void {
  define(program, {
    usage: 'completion',
    summary: 'print a script that completes commands, flags and names in your shell',
    arguments: [new Argument('<shell>', 'your shell').choices(['bash', 'zsh', 'fish'])],
    load: async () => {
      const { completion } = await import('./commands/completion.ts')
      return (call, shell: string) => completion(call, shell, program)
    },
    examples: [
      'completion bash > /etc/bash_completion.d/dormouse',
      'completion zsh > ~/.zfunc/_dormouse',
      'completion fish > ~/.config/fish/completions/dormouse.fish',
    ],
  })
}
