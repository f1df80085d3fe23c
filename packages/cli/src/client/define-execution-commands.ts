import { type Command, Option } from 'commander'
import { createOptions } from './create-flags.ts'
import { bytesFlag, collectValues, durationFlag, pairsFlag } from './flags.ts'
import { languageOption } from './language.ts'
import type { Define } from './program.ts'

const context = () =>
  new Option(
    '--context <name>',
    'the context to run in; it is made if it does not exist (default: default, or the one of the language)',
  )
const python = () =>
  new Option('--python <path>', 'the interpreter or virtual environment inside that a new context runs on')
const language = (what: string, byDefault: string) =>
  languageOption('-l, --language <language>', what, byDefault)
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
    options: [
      user(),
      new Option('--no-wake', 'copy out of a sleeping sandbox from its snapshot, without waking it'),
    ],
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
      new Option('--template <name>', 'what to make that sandbox from if it does not exist'),
      new Option('--memory <size>', 'its memory limit, such as 4GiB').argParser(bytesFlag('--memory')),
      new Option('--network <mode>', 'let it reach the public internet, or nothing').choices([
        'public',
        'none',
      ]),
      new Option(
        '--allow <target>',
        'let it reach only this, any number of times: example.com, *.example.com:443, 203.0.113.0/24',
      ).argParser(collectValues),
    ],
    load: async () => (await import('./commands/mcp.ts')).mcp,
    examples: ['mcp --sandbox analysis', 'mcp --sandbox analysis --memory 4GiB --allow pypi.org:443'],
  })
}

function defineRunCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'run [sandbox] [code]',
    summary: 'run code in a sandbox that keeps its variables; exits with the status of the code',
    options: [
      new Option('-f, --file <file>', 'a file with the code; - reads stdin'),
      language('the language of the code', 'that of the context'),
      context(),
      python(),
      new Option('--timeout <time>', 'interrupt the code after this time').argParser(
        durationFlag('--timeout'),
      ),
      new Option('--save <path>', 'save plots to this file, such as plot.png, or directory, such as plots/'),
      new Option(
        '--new',
        'run in a new sandbox and delete it afterwards; the only argument is the code, and flags below apply',
      ),
      ...createOptions(),
    ],
    load: async () => (await import('./commands/run.ts')).run,
    examples: [
      "run analysis 'df.describe()'",
      'run analysis -f load.py',
      "run web -l js 'await fetch(url)'",
      "run web --context project --python /root/project/.venv 'import flask'",
      "run analysis 'df.plot()' --save plot.png",
      "run --new 'print(1 + 1)'",
      'run --new --memory 4g --network none -f load.py',
    ],
  })
  define(program, {
    usage: 'exec <sandbox> <command...>',
    summary: 'run a program without a shell; exits with the status of the program',
    options: [
      user(),
      cwd(),
      env(),
      new Option('--timeout <time>', 'kill the program after this time').argParser(durationFlag('--timeout')),
      new Option('-d, --detach', 'leave the program running in the background and print its process id'),
      new Option('--no-keep-awake', 'let the sandbox sleep while the program runs, which suits servers'),
    ],
    load: async () => (await import('./commands/exec.ts')).exec,
    examples: [
      'exec analysis -- ls -l /root',
      'exec analysis -- wc -l < data.csv',
      'exec -d --no-keep-awake analysis -- python3 -m http.server',
    ],
  })
  define(program, {
    usage: 'repl <sandbox>',
    summary: 'open a prompt in a sandbox; Tab completes, Ctrl-C interrupts, Ctrl-D exits, variables stay',
    options: [language('the language of the prompt', 'that of the context'), context(), python()],
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
      new Option('--attach <process>', 'return to a terminal that you detached from, by its id or pid'),
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
