export { createMcpServer, type McpServer, type McpServerOptions } from './create-mcp-server.ts'
export { type McpRequest, McpSessions, type McpSessionsOptions, type SessionLimits } from './http/sessions.ts'
export { type RunStdio, runStdio } from './stdio.ts'
export { ERROR_META } from './tool-error.ts'
