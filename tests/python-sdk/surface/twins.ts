/** A class of the TypeScript SDK, its twin in Python, and their intended differences. */
export interface Twin {
  readonly python: string
  /** Members, and options as `member(option)`, with other names in Python. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Members, and options as `member(option)`, of one language only, and why. */
  readonly onlyTypeScript?: Readonly<Record<string, string>>
  readonly onlyPython?: Readonly<Record<string, string>>
}

const AS_PYTHON_SAYS = { 'usage(from)': 'start', 'usage(to)': 'end' }
const GONE_THROUGH = 'Python goes through the terminal itself: `for text in pty`'
const WITH_BLOCK = 'what its `with` block leaves, so that the usual sandbox is gone at the end'

/** An action is one mapping in Python, as the HTTP API has it. */
const ACTIONS = Object.fromEntries(
  ['create', 'update'].flatMap((member) =>
    [
      ...['type', 'sandbox', 'code', 'language', 'context', 'timeoutMs', 'job'],
      ...['port', 'service', 'method', 'path', 'headers', 'body'],
    ].map((field) => [`${member}(action.${field})`, 'action']),
  ),
)

const AN_ERROR = {
  renamed: { retryAfterMs: 'retry_after' },
  onlyTypeScript: {
    name: 'what every Error has',
    stack: 'the same',
    cause: 'the same, in Python `__cause__`',
    'static captureStackTrace': 'what every Error of Node has',
    'static prepareStackTrace': 'the same',
    'static stackTraceLimit': 'the same',
  },
}

/** Settings of a service: objects in TypeScript, arguments in Python. */
function servicesIn(method: string): Record<string, string> {
  return {
    [`${method}(replicas.min)`]: 'min_replicas',
    [`${method}(replicas.max)`]: 'max_replicas',
    [`${method}(replicas.concurrency)`]: 'concurrency',
    [`${method}(replicas.idleMs)`]: 'replica_idle',
    [`${method}(health.path)`]: 'health',
    [`${method}(health.intervalMs)`]: 'health_interval',
    [`${method}(health.timeoutMs)`]: 'health_timeout',
    [`${method}(health.failures)`]: 'health_failures',
  }
}

/** A policy of connections: an object in TypeScript, arguments in Python. */
const CONNECTIONS = Object.fromEntries(
  ['static create', 'static getOrCreate', 'update'].flatMap((method) => [
    [`${method}(connections.keepAsleepMs)`, 'keep_asleep'],
    [`${method}(connections.wakeOnData)`, 'wake_on_data'],
  ]),
)

export const CLASSES: Readonly<Record<string, Twin>> = {
  Commands: { python: 'Commands', renamed: { 'run(line)': 'command', 'start(line)': 'command' } },
  Command: { python: 'Command', renamed: { 'kill(name)': 'signal' } },
  Contexts: { python: 'Contexts' },
  Dormouse: {
    python: 'Client',
    renamed: AS_PYTHON_SAYS,
    onlyTypeScript: {
      'constructor(fetch)': 'Python always uses httpx',
      'constructor(WebSocket)': 'Python always uses websockets',
      socket: 'Python always uses websockets',
      createSandbox: 'a body as the contract has it, in Python one mapping',
    },
    onlyPython: {
      'constructor(tls)': 'Node takes its authorities from NODE_EXTRA_CA_CERTS, or from `fetch`',
      create_sandbox: 'a body as the contract has it',
      url: 'TypeScript finds out the address only when it is needed, and asynchronously',
      close: 'fetch has its connections to itself',
    },
  },
  DormouseError: {
    python: 'DormouseError',
    renamed: AN_ERROR.renamed,
    onlyTypeScript: { ...AN_ERROR.onlyTypeScript, 'constructor(cause)': 'in Python `raise … from`' },
  },
  Files: {
    python: 'Files',
    renamed: { 'write(content)': 'data', 'move(from)': 'source', 'move(to)': 'target' },
    onlyPython: { 'read(encoding)': 'text is UTF-8 everywhere else' },
  },
  Jobs: {
    python: 'Jobs',
    renamed: {
      'create(retry.retries)': 'retries',
      'create(retry.backoffMs)': 'backoff',
    },
  },
  Ports: { python: 'Ports' },
  Pty: {
    python: 'Pty',
    renamed: { 'kill(name)': 'signal' },
    onlyPython: { read: GONE_THROUGH, exit: 'TypeScript has it from `wait`', exit_code: 'the same' },
  },
  Ptys: {
    python: 'Ptys',
    onlyTypeScript: { 'create(onData)': GONE_THROUGH, 'connect(onData)': GONE_THROUGH },
  },
  Runs: {
    python: 'Runs',
    onlyPython: { result: 'TypeScript has it from `get`, which has two meanings in Python' },
  },
  Sandbox: {
    python: 'Sandbox',
    renamed: {
      ...AS_PYTHON_SAYS,
      ...CONNECTIONS,
      info: 'last_info',
      refresh: 'info',
      'fork(count)': 'n',
      'hold(forMs)': 'seconds',
    },
    onlyTypeScript: {
      constructor: 'of what was created; in Python it creates',
      toJSON: 'what JSON.stringify asks for; in Python `last_info` is a dataclass',
    },
    onlyPython: {
      constructor: 'it creates, so that `with Sandbox() as s` is all',
      'static create(persistent)': WITH_BLOCK,
      standby: '`idle` makes a sandbox persistent in Python, this does not',
    },
  },
  Result: { python: 'Result' },
  RunFailedError: {
    python: 'RunFailedError',
    renamed: { ...AN_ERROR.renamed, result: 'execution' },
    onlyTypeScript: AN_ERROR.onlyTypeScript,
  },
  RunTimeoutError: {
    python: 'RunTimeoutError',
    renamed: { ...AN_ERROR.renamed, result: 'execution' },
    onlyTypeScript: AN_ERROR.onlyTypeScript,
  },
  Schedules: { python: 'Schedules', renamed: ACTIONS },
  Nodes: { python: 'Nodes' },
  Scrub: { python: 'Scrub' },
  Server: { python: 'Server' },
  Variables: {
    python: 'Variables',
    onlyPython: { 'read(filter)': 'an object with numbers as keys in TypeScript' },
  },
  Secrets: { python: 'Secrets' },
  Services: {
    python: 'Services',
    renamed: {
      ...servicesIn('deploy'),
      ...servicesIn('update'),
      'deploy(registryAuth.username)': 'registry_auth',
      'deploy(registryAuth.password)': 'registry_auth',
      'deploy(registryAuth.registry)': 'registry_auth',
      'deploy(ready.port)': 'ready',
      'deploy(ready.command)': 'ready',
      'deploy(ready.log)': 'ready',
      'deploy(ready.timeoutMs)': 'ready',
    },
  },
  Snapshots: { python: 'Snapshots' },
  SshKeys: { python: 'SshKeys' },
  TemplateBuilder: {
    python: 'TemplateBuilder',
    renamed: { 'network(mode)': 'policy', 'network(allow)': 'policy', 'network(deny)': 'policy' },
  },
  Templates: {
    python: 'Templates',
    onlyPython: { 'debug(sandbox_name)': '`name` of the second argument in TypeScript' },
    renamed: {
      'create(from)': 'from_',
      'create(registryAuth.username)': 'registry_auth',
      'create(registryAuth.password)': 'registry_auth',
      'create(registryAuth.registry)': 'registry_auth',
      'create(ready.port)': 'ready',
      'create(ready.command)': 'ready',
      'create(ready.log)': 'ready',
      'create(ready.timeoutMs)': 'ready',
    },
  },
  Volumes: {
    python: 'Volumes',
    onlyPython: { 'clone(new)': '`name` of the second argument in TypeScript' },
  },
  Webhooks: { python: 'Webhooks' },
}

/** What TypeScript exports that is no class, and what Python has for it. */
export const NO_CLASSES = {
  packContext: '`templates.build` packs a directory; for `templates.upload` Python has `tarfile`',
  Template: 'methods of the class Template, which is also the value',
}

/** The methods of `Template` with other names in Python. */
export const BEGINNINGS: Readonly<Record<string, string>> = { from: 'from_image' }

/** Classes of one SDK that have no twin, and why. */
export const ONLY_TYPESCRIPT_CLASSES = {
  Backoff: 'inner',
  CommandResult: 'a dataclass in Python, compared as a value',
  RunResult: 'the same: Execution',
  BoundedText: 'inner',
  Deadline: 'inner',
  Forks: 'inner',
  Http: 'inner',
  HttpConnection: 'inner',
  Owners: 'inner',
  SocketConnection: 'inner',
}

export const ONLY_PYTHON_CLASSES = {
  AuthenticationError: '`except` takes classes where TypeScript looks at `code`',
  ConflictError: 'the same',
  InvalidArgumentError: 'the same',
  LimitError: 'the same',
  NotFoundError: 'the same',
  ServerUnreachableError: 'the same',
  Events: 'an AsyncIterable in TypeScript',
  JobEvents: 'an AsyncGenerator in TypeScript',
  RunStream: 'an AsyncGenerator in TypeScript, whose signal interrupts',
  Watch: 'an AsyncIterable in TypeScript',
  FileStream: 'a ReadableStream in TypeScript',
  RaceOutcome: 'an interface in TypeScript, with the same two fields',
}
