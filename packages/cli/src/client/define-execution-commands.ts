import { type Command, Option } from 'commander'
import { collectValues, durationFlag, numberFlag, pairsFlag } from './flags.ts'
import type { Define } from './program.ts'

const context = () =>
  new Option('--context <name>', 'the context to run in; it is made if it does not exist').default('default')
const user = () => new Option('-u, --user <name>', 'the user inside the sandbox')
const cwd = () => new Option('-w, --cwd <path>', 'the working directory')
const env = () =>
  new Option('-e, --env <name=value>', 'an environment variable').argParser(pairsFlag('--env'))

/** Commands that run or reach something inside a sandbox. */
export function defineExecutionCommands(program: Command, define: Define): void {
  defineRunCommands(program, define)
  defineShellCommands(program, define)
  define(program, {
    usage: 'cp <from> <to>',
    summary: 'copy files and directories; one side is sandbox:path, and - is stdin or stdout',
    options: [user()],
    load: async () => (await import('./commands/cp.ts')).cp,
    examples: ['cp data.csv analysis:/root/', 'cp analysis:/root/out ./out', 'cp analysis:/etc/hosts -'],
  })
  define(program, {
    usage: 'forward <sandbox> <ports...>',
    summary: 'forward local ports to a sandbox: PORT, or LOCAL:PORT',
    options: [new Option('--host <address>', 'the local address to listen on').default('127.0.0.1')],
    load: async () => (await import('./commands/forward.ts')).forward,
    examples: ['forward analysis 8888', 'forward analysis 8080:80'],
  })
  define(program, {
    usage: 'mcp',
    summary: 'serve sandboxes as tools to the MCP client that starts this command, over stdin and stdout',
    options: [
      new Option('--sandbox <name>', 'the sandbox to use when the model names none (default: a new sandbox)'),
    ],
    load: async () => (await import('./commands/mcp.ts')).mcp,
    examples: ['mcp --sandbox analysis'],
  })
}

function defineRunCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'run [sandbox] [code]',
    summary: 'run code in a sandbox that keeps its variables; exits with the status of the code',
    options: [
      new Option('-f, --file <file>', 'a file with the code; - reads stdin'),
      new Option('-l, --language <language>', 'the language of the code')
        .choices(['python', 'bash'])
        .default('python'),
      context(),
      new Option('--timeout <time>', 'interrupt the code after this time').argParser(
        durationFlag('--timeout'),
      ),
      new Option('--new', 'run in a new sandbox and delete it afterwards; the only argument is the code'),
      new Option('--template <name>', 'the template of the new sandbox, with --new'),
    ],
    load: async () => (await import('./commands/run.ts')).run,
    examples: ["run analysis 'df.describe()'", 'run analysis -f load.py', "run --new 'print(1 + 1)'"],
  })
  define(program, {
    usage: 'exec <sandbox> <command...>',
    summary: 'run a program without a shell; exits with the status of the program',
    options: [
      user(),
      cwd(),
      env(),
      new Option('--timeout <time>', 'kill the program after this time').argParser(durationFlag('--timeout')),
    ],
    load: async () => (await import('./commands/exec.ts')).exec,
    examples: ['exec analysis -- ls -l /root', 'exec analysis -- wc -l < data.csv'],
  })
  define(program, {
    usage: 'repl <sandbox>',
    summary: 'open a Python prompt in a sandbox; Ctrl-C interrupts, Ctrl-D exits, variables stay',
    options: [context()],
    load: async () => (await import('./commands/repl.ts')).repl,
  })
}

function defineShellCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'sh <sandbox> [command...]',
    summary: 'open a shell, or run a command in a terminal; Enter ~ . detaches and leaves it running',
    options: [
      user(),
      cwd(),
      env(),
      new Option('--attach <pid>', 'return to a terminal that you detached from').argParser(
        numberFlag('--attach'),
      ),
    ],
    load: async () => (await import('./commands/sh.ts')).sh,
    examples: ['sh analysis', 'sh analysis -- top'],
  })
  define(program, {
    usage: 'ssh <sandbox> [command...]',
    summary: 'open a shell, or run a command, with the `ssh` program of this machine',
    options: [
      new Option('-i, --identity <file>', 'the private key'),
      new Option(
        '-L, --forward <ports>',
        'forward a local port to the sandbox, as LOCAL:localhost:PORT',
      ).argParser(collectValues),
      new Option('-t, --terminal', 'open a terminal for the command too'),
      new Option('-o, --option <option>', 'any option of ssh_config').argParser(collectValues),
      new Option('--config', 'only print a section for ~/.ssh/config, for scp, rsync and editors'),
    ],
    load: async () => (await import('./commands/ssh.ts')).ssh,
    examples: ['ssh analysis', 'ssh analysis -- make test', 'ssh analysis --config >> ~/.ssh/config'],
  })
}
