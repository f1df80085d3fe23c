import { DormouseError } from '@dormouse/contracts'
import { DockerfileParser, type Instruction as Parsed } from 'dockerfile-ast'
import { asWord, expandWord, type InstructionText, readText, splitWords } from './dockerfile-text.ts'
import {
  type Base,
  type CacheMount,
  type Command,
  type Instruction,
  type Recipe,
  type Stage,
  shortened,
} from './recipe.ts'

export interface DockerfileOptions {
  readonly buildArgs?: Readonly<Record<string, string>> | undefined
  /** The stage to build; the last one by default. */
  readonly target?: string | undefined
}

/** They describe an image for others and change nothing in it. */
const IGNORED = new Set(['LABEL', 'EXPOSE', 'MAINTAINER', 'STOPSIGNAL', 'VOLUME'])
/** `FROM template:python` builds on a template. */
const TEMPLATE = /^template:(?<name>.+)$/

const COPY_OPTIONS = ['from', 'chown', 'chmod', 'link']
/** Options of a health check say how often it runs; a build only waits until it succeeds. */
const HEALTH_OPTIONS = ['interval', 'timeout', 'start-period', 'start-interval', 'retries']
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  FROM: ['platform'],
  RUN: ['mount'],
  COPY: COPY_OPTIONS,
  ADD: COPY_OPTIONS,
  HEALTHCHECK: HEALTH_OPTIONS,
}

const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch
const PLATFORM = `linux/${ARCHITECTURE}`
/** What BuildKit sets: a stage reads them after `ARG TARGETARCH`. */
const PLATFORM_ARGS: Readonly<Record<string, string>> = Object.fromEntries(
  ['BUILD', 'TARGET'].flatMap((side) => [
    [`${side}PLATFORM`, PLATFORM],
    [`${side}OS`, 'linux'],
    [`${side}ARCH`, ARCHITECTURE],
    [`${side}VARIANT`, ''],
  ]),
)

/** An instruction with its place, for errors. */
interface Read extends InstructionText {
  readonly lineNumber: number
}

/** Reads a Dockerfile. Throws `invalid_argument` with the line that cannot be understood. */
export function parseDockerfile(text: string, options: DockerfileOptions): Recipe {
  const globals: Record<string, string> = { ...PLATFORM_ARGS }
  const stages: (Stage & { instructions: Instruction[] })[] = []
  for (const read of readInstructions(text)) {
    const stage = stages.at(-1)
    if (read.keyword === 'FROM') stages.push(readFrom(read, { stages, globals }))
    else if (read.keyword === 'ARG' && stage === undefined)
      for (const { name, value } of readArguments(read))
        globals[name] = options.buildArgs?.[name] ?? expandWord(value ?? '', globals)
    else if (stage === undefined) throw wrong(read, 'comes before the first FROM')
    else stage.instructions.push(...readInstruction(read, { stages, globals, options }))
  }
  const last = chooseTarget(stages, options.target)
  return { stages: stages.slice(0, last + 1) }
}

function readInstructions(text: string): Read[] {
  const file = DockerfileParser.parse(text)
  const escapeCharacter = file.getEscapeCharacter()
  return file.getInstructions().map((parsed: Parsed) => {
    const read = { ...readText(parsed, escapeCharacter), lineNumber: parsed.getRange().start.line + 1 }
    for (const [name] of read.flags)
      if (!OPTIONS[read.keyword]?.includes(name))
        throw wrong(read, `has the option --${name}, which is not supported`)
    return read
  })
}

function chooseTarget(stages: readonly Stage[], target: string | undefined): number {
  if (stages.length === 0) throw invalid('The Dockerfile has no FROM.')
  if (target === undefined) return stages.length - 1
  const found = stages.findIndex(({ name }, at) => name === target.toLowerCase() || String(at) === target)
  if (found !== -1) return found
  throw new DormouseError('invalid_argument', `The Dockerfile has no stage "${target}".`, {
    details: { field: 'target', value: target },
  })
}

interface Around {
  readonly stages: readonly Stage[]
  readonly globals: Readonly<Record<string, string>>
}

function readFrom(read: Read, around: Around): Stage & { instructions: Instruction[] } {
  const [image, as, name] = read.line.split(/\s+/)
  if (!image || (as !== undefined && (as.toUpperCase() !== 'AS' || name === undefined)))
    throw wrong(read, 'must be FROM IMAGE [AS NAME]')
  for (const [, value] of read.flags) requirePlatform(read, expandWord(value, around.globals))
  const base = readBase(expandWord(image, around.globals), around.stages)
  return { base, instructions: [], ...(name !== undefined && { name: name.toLowerCase() }) }
}

function requirePlatform(read: Read, platform: string): void {
  if (platform === '' || platform === PLATFORM || platform.startsWith(`${PLATFORM}/`)) return
  throw wrong(read, `is for ${platform}, and this server runs ${PLATFORM}`)
}

function readBase(reference: string, stages: readonly Stage[]): Base {
  const stage = stages.findIndex(({ name }) => name === reference.toLowerCase())
  if (stage !== -1) return { type: 'stage', stage }
  const template = TEMPLATE.exec(reference)?.groups?.['name']
  return template === undefined ? { type: 'image', image: reference } : { type: 'template', template }
}

type Reader = (read: Read, around: Around & { options: DockerfileOptions }) => Instruction[]

const READERS: Readonly<Record<string, Reader>> = {
  RUN: (read) => [{ type: 'run', shown: shown(read), command: readCommand(read), caches: readMounts(read) }],
  COPY: (read, { stages }) => [readCopy(read, stages, false)],
  ADD: (read, { stages }) => [readCopy(read, stages, true)],
  ENV: (read) => [{ type: 'env', shown: shown(read), values: readVariables(read) }],
  ARG: (read, { globals, options }) =>
    readArguments(read).map(({ name, value }) => {
      const given = options.buildArgs?.[name] ?? PLATFORM_ARGS[name]
      const fromGlobals = value === undefined ? globals[name] : undefined
      const known = given ?? fromGlobals
      return { type: 'arg', shown: shown(read), name, value: known === undefined ? value : asWord(known) }
    }),
  WORKDIR: (read) => [{ type: 'workdir', shown: shown(read), path: required(read, 'a directory') }],
  USER: (read) => [{ type: 'user', shown: shown(read), user: required(read, 'a user') }],
  ENTRYPOINT: (read) => [{ type: 'entrypoint', shown: shown(read), command: readCommand(read) }],
  CMD: (read) => [{ type: 'cmd', shown: shown(read), command: readCommand(read) }],
  SHELL: (read) => {
    const args = readList(read.line)
    if (args === undefined || args.length === 0) throw wrong(read, 'must be a list like ["/bin/bash", "-c"]')
    return [{ type: 'shell', shown: shown(read), args }]
  },
  HEALTHCHECK: (read) => [{ type: 'healthcheck', shown: shown(read), command: readHealthcheck(read) }],
}

function readInstruction(read: Read, around: Around & { options: DockerfileOptions }): Instruction[] {
  if (IGNORED.has(read.keyword)) return []
  const reader = READERS[read.keyword]
  if (reader === undefined) throw wrong(read, 'is not supported')
  return reader(read, around)
}

function required({ line, ...read }: Read, what: string): string {
  if (line === '') throw wrong({ ...read, line }, `needs ${what}`)
  return line
}

const HEREDOC = /^<<(?<dash>-?)(?<quote>["']?)(?<end>\w+)\k<quote>$/

function readCommand(read: Read): Command {
  const { line, documents } = read
  const args = readList(line)
  if (args !== undefined) return { args }
  if (line === '') throw wrong(read, 'has no command')
  if (line.startsWith('<<')) return { script: readHeredoc(read) }
  // The shell reads heredocs of its own.
  return { script: documents === '' ? line : `${line}\n${documents}` }
}

/** The script of `RUN <<EOF`. */
function readHeredoc(read: Read): string {
  const found = HEREDOC.exec(read.line)?.groups
  const lines = read.documents
    .split('\n')
    .map((one) => (found?.['dash'] === '-' ? one.replace(/^\t+/, '') : one))
  const end = lines.indexOf(found?.['end'] ?? '')
  if (found === undefined || end === -1 || end !== lines.length - 1)
    throw wrong(read, 'has a heredoc that is not supported. Name the program first: `RUN bash <<EOF`')
  if (lines[0]?.startsWith('#!'))
    throw wrong(read, 'has a heredoc with `#!`, which is not supported. Write `RUN python3 <<EOF` instead')
  return lines.slice(0, end).join('\n')
}

function readHealthcheck(read: Read): Command | undefined {
  if (read.line.toUpperCase() === 'NONE') return undefined
  const command = /^CMD\s+(?<rest>[\s\S]+)$/i.exec(read.line)?.groups?.['rest']
  if (command === undefined) throw wrong(read, 'must be NONE or CMD COMMAND')
  const args = readList(command)
  return args === undefined ? { script: command } : { args }
}

const CACHE_FIELDS = ['type', 'id', 'target', 'dst', 'destination', 'sharing', 'uid', 'gid', 'mode']

function readMounts(read: Read): CacheMount[] {
  return read.flags.map(([, value]) => {
    const fields = Object.fromEntries(value.split(',').map((part) => splitOnce(part, '=')))
    if (fields['type'] !== 'cache')
      throw wrong(read, `has a mount of the type ${fields['type'] ?? 'bind'}; only type=cache is supported`)
    const other = Object.keys(fields).find((name) => !CACHE_FIELDS.includes(name))
    if (other !== undefined) throw wrong(read, `has a mount with "${other}", which is not supported`)
    const target = fields['target'] ?? fields['dst'] ?? fields['destination']
    if (!target) throw wrong(read, 'has a mount without a target')
    const numbers = { uid: number(read, fields['uid'], 10), gid: number(read, fields['gid'], 10) }
    return { target, id: fields['id'] ?? target, ...numbers, mode: number(read, fields['mode'], 8) }
  })
}

function number(read: Read, text: string | undefined, base: 8 | 10): number | undefined {
  if (text === undefined) return undefined
  if (/^[0-7]{1,5}$/.test(text) || (base === 10 && /^\d{1,5}$/.test(text))) return Number.parseInt(text, base)
  throw wrong(read, `has a mount with "${text.slice(0, 20)}", which is no number`)
}

function readCopy(read: Read, stages: readonly Stage[], isAdd: boolean): Instruction {
  const given = new Map(read.flags)
  if (read.line.startsWith('<<')) throw wrong(read, 'has a heredoc, which is not supported here')
  const paths = readList(read.line) ?? read.line.split(/\s+/)
  const to = paths.at(-1)
  if (paths.length < 2 || to === undefined) throw wrong(read, 'needs a source and a destination')
  const sources = paths.slice(0, -1)
  if (sources.some((source) => /^(https?:|git@|git:)/.test(source)))
    throw wrong(read, 'cannot download; use RUN with curl or git instead')
  const from = given.get('from')
  return {
    type: 'copy',
    shown: shown(read),
    sources,
    to,
    unpacks: isAdd,
    ...(from !== undefined && { from: readStage(from, stages) }),
    ...(given.has('chown') && { chown: given.get('chown') ?? '' }),
    ...(given.has('chmod') && { chmod: given.get('chmod') ?? '' }),
  }
}

function readStage(reference: string, stages: readonly Stage[]): Base {
  // The last stage is the one that the instruction belongs to.
  if (/^\d+$/.test(reference) && Number(reference) < stages.length - 1)
    return { type: 'stage', stage: Number(reference) }
  return readBase(reference, stages.slice(0, -1))
}

/** ARG: names, each with its default. */
function readArguments(read: Read): { name: string; value: string | undefined }[] {
  const words = splitWords(read.line)
  if (words.length === 0) throw wrong(read, 'needs NAME or NAME=VALUE')
  return words.map((word) => {
    const [name, value] = splitOnce(word, '=')
    return { name, value: word.includes('=') ? value : undefined }
  })
}

/** ENV: `NAME=VALUE …`, or `NAME VALUE` with a value to the end of the line. */
function readVariables(read: Read): Record<string, string> {
  const [first = '', ...words] = splitWords(read.line)
  const pairs = first.includes('=')
    ? [first, ...words].map((word) => (word.includes('=') ? splitOnce(word, '=') : undefined))
    : [words.length === 0 ? undefined : splitOnce(read.line.replace(/\s+/, ' '), ' ')]
  return Object.fromEntries(
    pairs.map((pair) => {
      if (pair === undefined || pair[0] === '') throw wrong(read, 'needs NAME=VALUE')
      return pair
    }),
  )
}

/** A JSON list of strings, or undefined: then the text is for a shell. */
function readList(text: string): string[] | undefined {
  if (!text.startsWith('[')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : undefined
  } catch {
    return undefined
  }
}

function splitOnce(text: string, at: string): [string, string] {
  const index = text.indexOf(at)
  return index === -1 ? [text.trim(), ''] : [text.slice(0, index).trim(), text.slice(index + 1)]
}

function shown({ keyword, flags, line, documents }: Read): string {
  const options = flags.map(([name, value]) => `--${name}=${value}`)
  const text = [keyword, ...options, line, documents].join(' ').replaceAll(/\s+/g, ' ').trim()
  return shortened(text)
}

function wrong({ lineNumber, keyword }: Read, why: string): DormouseError {
  return invalid(`Line ${lineNumber} of the Dockerfile: ${keyword} ${why}.`)
}

function invalid(message: string): DormouseError {
  return new DormouseError('invalid_argument', message, { details: { field: 'dockerfile' } })
}
