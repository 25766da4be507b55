// Nothing does nothing. No Go program takes less time than this.
package main

func main() {}
