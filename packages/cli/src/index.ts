export { type CommandOutput, type DoctorCommand, doctorCommand, formatChecks } from './doctor-command.ts'
export { type KeyCommand, keyCommand } from './key-command.ts'
export { keyHelp } from './keys/key-arguments.ts'
