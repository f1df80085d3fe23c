/** Not read from package.json, which the bundle of the command line does not contain. A test compares the two. */
export const VERSION = '0.1.0'
