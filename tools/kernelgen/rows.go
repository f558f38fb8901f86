package main

func rows() {}
