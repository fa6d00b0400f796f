# Types of what the tests use of moto. Its own make a type checker read every service that it has.
