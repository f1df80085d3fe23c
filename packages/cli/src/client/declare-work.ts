import { type Command, Option } from 'commander'
import { collected, durationFlag, numberFlag, pairsFlag } from './flags.ts'
import type { Declare } from './program.ts'

const context = () =>
  new Option('--context <name>', 'the REPL to run in, made if there is none of that name').default('default')
const user = () => new Option('-u, --user <name>', 'as this user of the sandbox')
const cwd = () => new Option('-w, --cwd <path>', 'in this directory')
const env = () => new Option('-e, --env <name=value>', 'more environment').argParser(pairsFlag('--env'))

/** Commands that do something inside a sandbox. */
export function declareWorkCommands(program: Command, declare: Declare): void {
  declare(program, {
    usage: 'run [sandbox] [code]',
    summary: 'run code in the REPL of a sandbox, which remembers; the exit status is that of the code',
    options: [
      new Option('-f, --file <file>', 'the code; - for what is piped in'),
      new Option('-l, --language <language>', 'what the code is')
        .choices(['python', 'bash'])
        .default('python'),
      context(),
      new Option('--timeout <time>', 'interrupt it after so long').argParser(durationFlag('--timeout')),
      new Option('--new', 'in a sandbox of its own, deleted afterwards; then only the code is given'),
      new Option('--template <name>', 'what to make it from, with --new'),
    ],
    load: async () => (await import('./commands/run.ts')).run,
    examples: ["run analysis 'df.describe()'", 'run analysis -f load.py', "run --new 'print(1 + 1)'"],
  })
  declare(program, {
    usage: 'exec <sandbox> <command...>',
    summary: 'run a program with its arguments, without a shell; the exit status is that of the program',
    options: [
      user(),
      cwd(),
      env(),
      new Option('--timeout <time>', 'kill it after so long').argParser(durationFlag('--timeout')),
    ],
    load: async () => (await import('./commands/exec.ts')).exec,
    examples: ['exec analysis -- ls -l /root', 'exec analysis -- wc -l < data.csv'],
  })
  declare(program, {
    usage: 'sh <sandbox> [command...]',
    summary: 'open a shell, or run a command, in a terminal; Enter ~ . leaves it running',
    options: [
      user(),
      cwd(),
      env(),
      new Option('--attach <pid>', 'back to a terminal that was left').argParser(numberFlag('--attach')),
    ],
    load: async () => (await import('./commands/sh.ts')).sh,
    examples: ['sh analysis', 'sh analysis -- top'],
  })
  declare(program, {
    usage: 'ssh <sandbox> [command...]',
    summary: 'start the `ssh` of this machine for a sandbox: a shell, or a command',
    options: [
      new Option('-i, --identity <file>', 'the private key'),
      new Option('-L, --forward <ports>', 'a port of the sandbox here, as LOCAL:localhost:PORT').argParser(
        collected,
      ),
      new Option('-t, --terminal', 'a terminal for the command too'),
      new Option('-o, --option <option>', 'any option of ssh_config').argParser(collected),
      new Option('--config', 'only print what to put into ~/.ssh/config, for scp, rsync and editors'),
    ],
    load: async () => (await import('./commands/ssh.ts')).ssh,
    examples: ['ssh analysis', 'ssh analysis -- make test', 'ssh analysis --config >> ~/.ssh/config'],
  })
  declare(program, {
    usage: 'repl <sandbox>',
    summary: 'talk to the Python of a sandbox; Ctrl-C interrupts, Ctrl-D leaves, and nothing is lost',
    options: [context()],
    load: async () => (await import('./commands/repl.ts')).repl,
  })
  declare(program, {
    usage: 'cp <from> <to>',
    summary: 'copy files and directories; one side is sandbox:path, and - is stdin or stdout',
    options: [user()],
    load: async () => (await import('./commands/cp.ts')).cp,
    examples: ['cp data.csv analysis:/root/', 'cp analysis:/root/out ./out', 'cp analysis:/etc/hosts -'],
  })
  declare(program, {
    usage: 'forward <sandbox> <ports...>',
    summary: 'make ports of a sandbox reachable here: PORT, or LOCAL:PORT',
    options: [new Option('--host <address>', 'where to listen').default('127.0.0.1')],
    load: async () => (await import('./commands/forward.ts')).forward,
    examples: ['forward analysis 8888', 'forward analysis 8080:80'],
  })
  declare(program, {
    usage: 'mcp',
    summary: 'serve the sandboxes as tools to the MCP client that starts this, over stdin and stdout',
    options: [
      new Option('--sandbox <name>', 'the one to use when the model names none; a new one if not given'),
    ],
    load: async () => (await import('./commands/mcp.ts')).mcp,
    examples: ['mcp --sandbox analysis'],
  })
}
