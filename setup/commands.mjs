import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { JSON_FLAG, parseFlags, refuseArguments, UsageError } from './arguments.mjs'
import { isClientCommand } from './client-commands.mjs'
import { clientIo } from './client-io.mjs'
import { natsServer, parseClusterDev, runClusterDev } from './cluster-dev.mjs'
import { isClusterState, runClusterState } from './cluster-state.mjs'
import { helpCommands, helpText } from './help.mjs'
import { ProgressEvents } from './progress-events.mjs'
import { runInForeground } from './run-command.mjs'
import { runSteps } from './run-steps.mjs'
import { parseServerFlags } from './server-flags.mjs'
import { criu } from './steps/criu.mjs'
import { allSteps, BUILD_STEPS, TOOL_STEPS } from './steps/index.mjs'
import { MICROVM_STEPS, testMachine } from './steps/microvm.mjs'
import { templateStep } from './steps/template.mjs'
import { templateSnapshotStep } from './steps/template-snapshot.mjs'
import { TEST_STEPS } from './steps/test-packages.mjs'
import { testPrograms } from './test-programs.mjs'

/**
 * @typedef {{ write(text: string): unknown }} Output
 * @typedef {import('./run-steps.mjs').Context &
 *   { args: string[], isJson: boolean, stdout: Output, stderr: Output }} CommandContext
 * @typedef {{ needsRoot: boolean, run: (context: CommandContext) => Promise<number> }} SetupCommand
 */

/** @type {Readonly<Record<string, SetupCommand>>} */
export const COMMANDS = {
  up: { needsRoot: true, run: up },
  cluster: { needsRoot: true, run: cluster },
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
  const { stdout, isJson, signal, dataDir } = context
  const flags = parseServerFlags(context.args)
  await runSteps(allSteps(context.repoDir), withEvents(context))
  const { loadConfig, readEnv, runServer } = await import('@dormouse/server')
  const config = loadConfig({ env: readEnv(), flags, dataDir })
  if (config.isolation === 'microvm') await runSteps(MICROVM_STEPS, withEvents(context))
  await runServer({
    config,
    signal,
    buildsTemplates: true,
    ...(isJson
      ? { tell: (report) => stdout.write(`${JSON.stringify(report)}\n`) }
      : { print: (line) => stdout.write(`${line}\n`) }),
  })
  return 0
}

/** @type {SetupCommand['run']} */
async function cluster(context) {
  const { stdout, signal, dataDir, isJson } = context
  if (isClusterState(context.args)) {
    await runSteps(BUILD_STEPS, { ...context, quiet: true })
    return runClusterState(context)
  }
  const options = parseClusterDev(context.args)
  await runSteps([...allSteps(context.repoDir), natsServer], withEvents(context))
  const print = (/** @type {string} */ line) =>
    stdout.write(isJson ? `${JSON.stringify({ type: 'line', line })}\n` : `${line}\n`)
  await runClusterDev({ ...options, dataDir, signal, print })
  return 0
}

/** @type {SetupCommand['run']} */
async function test(context) {
  const { repoDir, dataDir, signal, args, isJson } = context
  await runSteps([...allSteps(repoDir), ...TEST_STEPS, ...MICROVM_STEPS, testMachine], context)
  const env = { ...process.env, DORMOUSE_DATA: dataDir }
  let status = 0
  // The tests run even when the linter fails, so that one run shows every problem.
  for (const { argv, isNote } of testPrograms(args, { isJson })) {
    const [program, ...rest] = argv
    const path = join(repoDir, 'node_modules/.bin', program)
    const ended = await runInForeground({ argv: [path, ...rest], cwd: repoDir, env, signal, isNote })
    status ||= ended
  }
  return status
}

/** @type {SetupCommand['run']} */
async function doctor(context) {
  refuseArguments(context.args)
  await runSteps(BUILD_STEPS, { ...context, quiet: true })
  const { doctorCommand } = await import('@dormouse/cli')
  return doctorCommand({ dataDir: context.dataDir, json: context.isJson, stdout: context.stdout })
}

/** @type {SetupCommand['run']} */
async function template(context) {
  const [action, ...rest] = context.args
  if (action !== 'build')
    throw new UsageError('`template` needs one of `build FILE`, `ls`, `create`, `show` or `rm`')
  return buildTemplate(context, rest)
}

/** @type {SetupCommand['run']} */
async function key(context) {
  await runSteps(BUILD_STEPS, { ...context, quiet: true })
  const { keyCommand } = await import('@dormouse/cli')
  return keyCommand({
    dataDir: context.dataDir,
    args: context.isJson ? [...context.args, JSON_FLAG] : context.args,
    stdout: context.stdout,
    stderr: context.stderr,
  })
}

/**
 * @param {CommandContext} context
 * @param {string[]} args
 */
async function buildTemplate(context, args) {
  const [file, ...others] = parseFlags(args).positionals
  if (file === undefined) throw new UsageError('`template build` needs the path of a description file')
  refuseArguments(others)
  await runSteps(TOOL_STEPS, { ...withEvents(context), quiet: true })
  const { readTemplateDescription, getTemplate } = await import('@dormouse/engine-linux/setup')
  const { name } = await readTemplateDescription(resolve(file))
  await runSteps(
    [
      templateStep(resolve(file), { id: `template-${name}`, title: `Template "${name}"` }),
      criu,
      templateSnapshotStep(name),
    ],
    withEvents(context),
  )
  const { rootfs } = await getTemplate(context.dataDir, name)
  context.stdout.write(`${context.isJson ? JSON.stringify({ type: 'built', name, rootfs }) : rootfs}\n`)
  return 0
}

/** @type {SetupCommand['run']} */
async function help({ args, stdout, isJson }) {
  const { runClientCommand } = await import('./run-client-command.mjs')
  if (isClientCommand(args)) return runClientCommand([...args, '--help', ...(isJson ? [JSON_FLAG] : [])])
  const [command] = args
  if (command !== undefined && !Object.hasOwn(COMMANDS, command)) refuseArguments(args)
  const own = helpCommands(command)
  if (own.length > 0 && command !== undefined) {
    const more = command === 'key' ? await import('@dormouse/cli').catch(() => undefined) : undefined
    const text = () => helpText(command) + (more === undefined ? '' : `\n${more.keyHelp(args[1])}`)
    stdout.write(isJson ? `${JSON.stringify({ commands: own }, null, 2)}\n` : text())
    return 0
  }
  const client = await import('@dormouse/cli/client').catch(() => undefined)
  if (isJson) {
    const commands = [...helpCommands(), ...(client?.clientCommands(clientIo()) ?? [])]
    stdout.write(`${JSON.stringify({ commands }, null, 2)}\n`)
    return 0
  }
  stdout.write(helpText())
  if (client === undefined) stdout.write('\n`./dormouse up` builds the commands for sandboxes.\n')
  else
    stdout.write(
      `\nWhile the server runs (each has \`--help\`; see docs/cli.md):\n\n${client.clientHelp(clientIo())}`,
    )
  return 0
}

/** @type {SetupCommand['run']} */
async function version({ args, stdout, repoDir, isJson }) {
  refuseArguments(args)
  const { version } = JSON.parse(readFileSync(join(repoDir, 'packages/cli/package.json'), 'utf8'))
  stdout.write(isJson ? `${JSON.stringify({ version })}\n` : `dormouse ${version}\n`)
  return 0
}

/**
 * With `--json`, set-up steps are reported on stdout as well: some of them take minutes.
 * @param {CommandContext} context
 * @returns {CommandContext}
 */
function withEvents(context) {
  return context.isJson ? { ...context, progress: new ProgressEvents(context.stdout) } : context
}
