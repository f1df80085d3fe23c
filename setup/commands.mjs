import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { UsageError } from './arguments.mjs'
import { isClientCommand } from './client-commands.mjs'
import { runInForeground } from './run-command.mjs'
import { runSteps } from './run-steps.mjs'
import { serverFlags } from './server-flags.mjs'
import { criu } from './steps/criu.mjs'
import { allSteps, BUILD_STEPS, TOOL_STEPS } from './steps/index.mjs'
import { templateStep } from './steps/template.mjs'
import { templateSnapshotStep } from './steps/template-snapshot.mjs'

const HELP = `dormouse: the perpetual sandbox for AI agents, on any Linux box

  ./dormouse up                     set everything up, then run the server in the foreground
      --host ADDRESS --port N       where it listens (127.0.0.1, 7070); see docs/configuration.md
      --tls-cert FILE --tls-key FILE, or --insecure-bind: for an address other than loopback
  ./dormouse test [vitest args]     set everything up, then lint and run all tests
  ./dormouse doctor [--json]        what this host offers and lacks; status 0 when sandboxes can run
  ./dormouse template build FILE    build a template from a description such as templates/python.json
  ./dormouse key create|update|list|revoke
                                    API keys, their scopes and limits; see docs/configuration.md
  ./dormouse help [COMMAND], --version

  --data DIR    the data directory, for every command (else $DORMOUSE_DATA, else /var/lib/dormouse)
`

/**
 * @typedef {import('./run-steps.mjs').Context & { args: string[], stdout: { write(text: string): unknown } }} CommandContext
 * @typedef {{ needsRoot: boolean, run: (context: CommandContext) => Promise<number> }} SetupCommand
 */

/** @type {Readonly<Record<string, SetupCommand>>} */
export const COMMANDS = {
  up: { needsRoot: true, run: up },
  test: { needsRoot: true, run: test },
  doctor: { needsRoot: true, run: doctor },
  template: { needsRoot: true, run: template },
  key: { needsRoot: true, run: key },
  help: { needsRoot: false, run: help },
  '--help': { needsRoot: false, run: help },
  '-h': { needsRoot: false, run: help },
  '--version': { needsRoot: false, run: version },
}

/** @type {SetupCommand['run']} */
async function up(context) {
  const args = serverFlags(context.args)
  await runSteps(allSteps(context.repoDir), context)
  const { loadConfig, readEnv, runServer } = await import('@dormouse/server')
  await runServer({
    config: loadConfig({ env: readEnv(), args, dataDir: context.dataDir }),
    signal: context.signal,
    print: (line) => context.stdout.write(`${line}\n`),
  })
  return 0
}

/** @type {SetupCommand['run']} */
async function test(context) {
  const { repoDir, dataDir, signal, args } = context
  await runSteps(allSteps(repoDir), context)
  const env = { ...process.env, DORMOUSE_DATA: dataDir }
  /** @type {(program: string, ...args: string[]) => Promise<number>} */
  const run = (program, ...rest) =>
    runInForeground({
      argv: [join(repoDir, 'node_modules/.bin', program), ...rest],
      cwd: repoDir,
      env,
      signal,
    })
  const lint = await run('biome', 'check', '--error-on-warnings', '.')
  const types = await run('tsc', '-p', 'setup')
  // The tests run even when the linter complains: one run shows everything there is to mend.
  const tests = await run('vitest', 'run', ...args)
  return lint || types || tests
}

/** @type {SetupCommand['run']} */
async function doctor(context) {
  const json = takeFlag(context.args, '--json')
  refuseArguments(context.args)
  await runSteps(BUILD_STEPS, { ...context, quiet: true })
  const { doctorCommand } = await import('@dormouse/cli')
  return doctorCommand({ dataDir: context.dataDir, json, stdout: context.stdout })
}

/** @type {SetupCommand['run']} */
async function template(context) {
  const [action, ...rest] = context.args
  if (action !== 'build')
    throw new UsageError('`template` needs `build FILE`, `ls`, `create`, `show` or `rm`')
  return buildTemplate(context, rest)
}

/** @type {SetupCommand['run']} */
async function key(context) {
  await runSteps(BUILD_STEPS, { ...context, quiet: true })
  const { keyCommand } = await import('@dormouse/cli')
  return keyCommand({
    dataDir: context.dataDir,
    args: context.args,
    stdout: context.stdout,
    stderr: context.output,
  })
}

/**
 * @param {CommandContext} context
 * @param {string[]} args
 */
async function buildTemplate(context, [file, ...rest]) {
  if (file === undefined) throw new UsageError('`template build` needs the path of a description file')
  refuseArguments(rest)
  await runSteps(TOOL_STEPS, { ...context, quiet: true })
  const { readTemplateDescription, getTemplate } = await import('@dormouse/engine-linux/setup')
  const { name } = await readTemplateDescription(resolve(file))
  await runSteps(
    [
      templateStep(resolve(file), { id: `template-${name}`, title: `Template "${name}"` }),
      criu,
      templateSnapshotStep(name),
    ],
    context,
  )
  context.stdout.write(`${(await getTemplate(context.dataDir, name)).rootfs}\n`)
  return 0
}

/** @type {SetupCommand['run']} */
async function help({ args, stdout }) {
  const { clientIo, runClientCommand } = await import('./run-client-command.mjs')
  if (isClientCommand(args)) return runClientCommand([...args, '--help'])
  stdout.write(HELP)
  const client = await import('@dormouse/cli/client').catch(() => undefined)
  if (client === undefined)
    stdout.write('\nCommands about sandboxes are there once `./dormouse up` has built them.\n')
  else
    stdout.write(
      `\nWhile the server runs (\`--help\` with each, docs/cli.md):\n\n${client.clientHelp(clientIo())}`,
    )
  return 0
}

/** @type {SetupCommand['run']} */
async function version({ stdout, repoDir }) {
  const manifest = JSON.parse(readFileSync(join(repoDir, 'packages/cli/package.json'), 'utf8'))
  stdout.write(`dormouse ${manifest.version}\n`)
  return 0
}

/**
 * @param {string[]} args
 * @param {string} flag
 */
function takeFlag(args, flag) {
  const index = args.indexOf(flag)
  if (index >= 0) args.splice(index, 1)
  return index >= 0
}

/** @param {string[]} args */
function refuseArguments(args) {
  if (args.length > 0) throw new UsageError(`"${args[0]}" is not understood here`)
}
