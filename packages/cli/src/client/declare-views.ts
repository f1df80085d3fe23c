import { Argument, type Command, Option } from 'commander'
import { collected, numberFlag } from './flags.ts'
import type { Declare } from './program.ts'

/** Commands that look, and wake nobody. */
export function declareViewCommands(program: Command, declare: Declare): void {
  declare(program, {
    usage: 'logs <sandbox> [run]',
    summary: 'what runs wrote: the last ones, or one',
    options: [
      new Option('-f, --follow', 'go on as it is written, also by runs that begin later'),
      new Option('-n, --last <number>', 'how many runs').argParser(numberFlag('--last')).default(10),
    ],
    load: async () => (await import('./commands/logs.ts')).logs,
  })
  declare(program, {
    usage: 'why <sandbox>',
    summary: 'what keeps a sandbox awake, when it will sleep, and its last sleeps and wakes',
    load: async () => (await import('./commands/why.ts')).why,
  })
  declare(program, {
    usage: 'network <sandbox>',
    summary: 'what a sandbox may reach, what it did, and what was refused; or change what it may reach',
    options: [
      new Option('--mode <mode>', 'from now on: everything public, or nothing').choices(['public', 'none']),
      new Option('--allow <what>', 'from now on this and nothing else, any number of times').argParser(
        collected,
      ),
    ],
    load: async () => (await import('./commands/network.ts')).network,
    examples: [
      'network analysis',
      'network analysis --mode none',
      'network analysis --allow example.com:443',
    ],
  })
  declare(program, {
    usage: 'top',
    summary: 'a live table of sandboxes: state, memory, CPU, last wake',
    options: [
      new Option('--once', 'one table, and no more'),
      new Option('-n, --lines <number>', 'at most so many sandboxes').argParser(numberFlag('--lines')),
    ],
    load: async () => (await import('./commands/top.ts')).top,
  })
  declare(program, {
    usage: 'usage [sandbox]',
    summary: 'what was used, what it costs, and what it would have cost without sleep',
    options: [
      new Option('--from <time>', 'ISO 8601; the beginning of this month if not given'),
      new Option('--to <time>', 'ISO 8601; now if not given'),
    ],
    load: async () => (await import('./commands/usage.ts')).usage,
  })
  declare(program, {
    usage: 'demo',
    summary: 'the story in a minute: load, ask, sleep, wake, fork; compared with starting afresh each time',
    options: [
      new Option('--rows <number>', 'rows of the frame; 5,000,000 are about 240 MB')
        .argParser(numberFlag('--rows'))
        .default(5_000_000),
      new Option('--keep', 'leave the sandbox there afterwards'),
    ],
    load: async () => (await import('./demo/demo.ts')).demo,
  })
  declare(program, {
    usage: 'completion',
    summary: 'a script that completes commands, flags and names in your shell',
    arguments: [new Argument('<shell>', 'which one').choices(['bash', 'zsh', 'fish'])],
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
