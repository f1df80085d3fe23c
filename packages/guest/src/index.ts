export { AgentClient, type AgentClientOptions, type AgentIdentity } from './agent-client.ts'
export { RunCollector } from './collect-run.ts'
export { PROTOCOL_VERSION } from './frames.ts'
export { guestPythonDir } from './python-sources.ts'
