import { describeCommand, describeRun } from './describe-run.ts'
import { inputSchema } from './input-schema.ts'
import type { ToolDefinition } from './tool-definition.ts'
import { toolOutput } from './tool-output.ts'

/** The maximum of the server: a day. */
const TIMEOUT_MAX_MS = 24 * 3600 * 1000

const timeoutMs = {
  type: 'integer',
  minimum: 1,
  maximum: TIMEOUT_MAX_MS,
  description: 'Stop it after this many milliseconds. Default: no limit.',
} as const

interface RunPython {
  readonly code: string
  readonly timeoutMs?: number
}

const runPython: ToolDefinition = {
  name: 'run_python',
  description:
    'Run Python code in a REPL that keeps its state: variables, imports, open files and threads of earlier calls are ' +
    'still there, even days later. Load data once and use it in later calls; do not repeat earlier code. numpy, ' +
    'pandas, matplotlib, scipy, scikit-learn, requests and openpyxl are installed. Returns stdout, stderr, the value ' +
    'of the last expression, plots as images, and the traceback of an exception (the variables stay).',
  inputSchema: inputSchema(
    {
      code: {
        type: 'string',
        description: 'As in a notebook cell. The value of the last expression is returned.',
      },
      timeoutMs,
    },
    ['code'],
  ),
  run: async (sandbox, { code, timeoutMs }: RunPython, { signal, onOutput }) =>
    describeRun(await sandbox.runCode(code, { timeoutMs, signal, onStdout: onOutput, onStderr: onOutput })),
}

interface RunShell {
  readonly command: string
  readonly cwd?: string
  readonly timeoutMs?: number
}

const runShell: ToolDefinition = {
  name: 'run_shell',
  description:
    'Run a bash command. Files and background processes stay; the working directory and shell variables do not ' +
    '(give `cwd`, or use `cd dir && …`). Start a server with `nohup … >log 2>&1 &`. Returns stdout, stderr and the ' +
    'exit code.',
  inputSchema: inputSchema(
    {
      command: { type: 'string', minLength: 1, description: 'For `bash -c`.' },
      cwd: {
        type: 'string',
        minLength: 1,
        description: 'Working directory. Default: the home directory.',
      },
      timeoutMs,
    },
    ['command'],
  ),
  run: async (sandbox, { command, ...options }: RunShell, { signal, onOutput }) =>
    describeCommand(
      await sandbox.commands.run(command, { ...options, signal, onStdout: onOutput, onStderr: onOutput }),
    ),
}

interface PreviewUrl {
  readonly port: number
}

const previewUrl: ToolDefinition = {
  name: 'preview_url',
  description:
    'Return a link that opens a web server inside the sandbox in a browser, for an hour. Opening it wakes the sandbox.',
  inputSchema: inputSchema(
    { port: { type: 'integer', minimum: 1, maximum: 65_535, description: 'The port of the program.' } },
    ['port'],
  ),
  run: async (sandbox, { port }: PreviewUrl, { signal }) => {
    await sandbox.ports.wait(port, { signal, timeoutMs: 5_000 })
    const { pathUrl } = await sandbox.ports.link(port, { signal })
    return toolOutput(pathUrl)
  },
}

export const RUN_TOOLS: readonly ToolDefinition[] = [runPython, runShell, previewUrl]
